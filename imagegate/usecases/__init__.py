"""One file a command: the only place where shell and core are wired together."""
