"""Keys, signatures, and where they are kept."""
