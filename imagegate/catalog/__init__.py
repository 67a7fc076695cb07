"""File trees to facts: declared files, a parser each."""
