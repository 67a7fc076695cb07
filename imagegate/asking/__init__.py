"""What COPY coverage is asked for: patterns, expectations, and the file that commits them."""
