"""Layers to tree to facts to changes: how an image becomes what is compared.

layers       blobs to entries, some at a time, each with a collector of its own
stacked      everything of an image, or what stands on a locked base
merged       the two pure merges: changes against a base, and facts with its own
"""

from __future__ import annotations
