"""COPY coverage: where each file of a build context ends, on each builder, without building.

The context, the ignore files and the Dockerfile come in as values; what comes out are trees whose
files know which context file they are, and a verdict per asset and builder profile. Nothing here
opens a file, starts a process or knows the time.

Modules, lowest first::

    gopath      Go's ``filepath.Clean`` and ``filepath.Match``, whose rules the builders inherit
    goregexp    Go regular expressions (RE2 syntax) as Python ones
    tree        nodes of contexts and of images; a context is a tree plus a way to read a file
    profiles    what one builder version does, as data
    patterns    one line of an ignore file, compiled as a builder compiles it
    ignorefile  reading ignore files, and which of them applies
    walk        which part of a context a builder sends, and the line that decided
    dockerfile  Dockerfile -> instructions
    words       variable substitution and quote removal in one word
    stages      instructions -> stages with their scopes
    copying     what COPY and ADD do to a tree, per builder family
    evaluate    a Dockerfile and a context -> the final tree
    runs        which paths a RUN may touch
    verdict     asset, tree -> verdict with the line that decided
    repair      verdicts -> edits of Dockerfile and ignore file
"""
