"""Composing an image without a daemon: new layers on top of a base that is named, not read."""
