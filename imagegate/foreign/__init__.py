"""Text that others wrote: what must not be shown of it, and how it is shown."""
