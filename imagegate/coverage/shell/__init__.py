"""What the commands of a RUN may do to files, from their text.

The text is read with a shell grammar (tree-sitter-bash). Words are expanded as far as the text
tells their value; each program is known as what it is (`table`), and what is not known is said to
be opaque, never taken for harmless.
"""
