"""What serving programs accept, read from their source text: nothing is imported or run.

vLLM and SGLang build their parsers from annotated classes and ``add_argument`` calls, ``ray
start`` from click decorators. This package reads those with :mod:`ast` and says what it could not
understand. The answer is a document that a lock keeps; judging argument lists needs only that.
"""
