"""What turns a recipe and its lock into an image."""
