"""COPY coverage: where each file of a build context ends, on each builder, without building.

The context, the ignore files and the Dockerfile come in as values; what comes out are trees whose
files know which context file they are, and a verdict per asset and builder. Nothing here opens a
file, starts a process or knows the time.

Rooms, lowest first::

    golang     Go's ``filepath`` and ``regexp``, whose rules builders inherit
    tree       nodes of contexts and images; a context is a tree and a way to open a file
    sending    ignore files -> the part of a context that a builder is sent, with the line that decided
    shell      what the commands of a RUN may do to files, from their text
    reading    Dockerfile -> stages of operations with every word expanded
    building   stages and contexts -> the tree of each stage; a `building.builder.Builder` class a
               family, and `building.profiles` names their versions
    baseline   a locked base as the start of a stage
    identity   which image files are an asset: the same file on disk, or the same bytes
    outcome    what can become of an asset, as values
    verdict    assets and trees -> a verdict per asset, with the line that decided
    repair     verdicts -> the least edits of Dockerfile and ignore file
    copying    what a recipe's own build does to its assets, for the gate
    render     reports as text, JSON and GitHub workflow commands
"""
