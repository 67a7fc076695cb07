"""Bringing an image into an engine's store without a registry.

::

    archive   the image as one tar stream, in the form that the store keeps byte for byte
    engines   docker (both of its stores) and podman, here or on another host
"""
