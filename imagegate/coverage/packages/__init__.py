"""Which files of a Python project end in its wheel, as far as its text says.

A wheel is made by a build backend (PEP 517). The rules of setuptools, hatchling, poetry-core,
flit-core and uv_build are read here; what a program decides (a ``setup.py`` that computes, a hook,
another backend) is not told by text, and only the built image proves it.
"""

from imagegate.coverage.packages.answer import NotPacked, NotTold, Packed
from imagegate.coverage.packages.project import Project, read_project

__all__ = ["NotPacked", "NotTold", "Packed", "Project", "read_project"]
