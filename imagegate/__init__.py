"""Builds container images over a locked base and proves from bytes that no base pin moved."""

__version__ = "0.2.0"
