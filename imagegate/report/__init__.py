"""Verdicts and differences, written for people and for programs."""
