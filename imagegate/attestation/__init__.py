"""Statements about an image: what was judged, from what it was made, and what it holds."""
