"""Every known form of an image that runs something else than base and lock, as one table."""
