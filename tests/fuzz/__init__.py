"""Longer fuzzing of every parser of foreign bytes, by coverage (atheris)."""
