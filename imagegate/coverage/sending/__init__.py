"""What of a context a builder is sent: ignore files, their patterns, the walk that applies them."""
