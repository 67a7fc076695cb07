"""What a Dockerfile says: lines, words and variables, up to stages of expanded operations."""
