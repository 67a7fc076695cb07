"""One file a command; the only place that wires I/O to the core."""
