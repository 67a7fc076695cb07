"""Command line: parse, call one use case, print, exit code."""
