"""What the commands of a RUN may do to files, from their text."""
