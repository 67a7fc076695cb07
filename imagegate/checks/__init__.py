"""Checks: what each asks (``check``), and one package for each kind of evidence."""
