"""COPY coverage: where each file of a build context ends, on each builder, without building.

The context, the ignore files and the Dockerfile come in as values; what comes out are trees whose
files know which context file they are, and a verdict per asset and builder profile. Nothing here
opens a file, starts a process or knows the time.

Modules, lowest first::

    gopath         Go's ``filepath.Clean`` and ``filepath.Match``, whose rules builders inherit
    goregexp       Go regular expressions (RE2 syntax) as Python ones
    tree           nodes of contexts and images; a context is a tree and a way to open a file
    frontend       what a Dockerfile may say to one builder, as data
    profiles       what one builder version does, as data
    patterns       one line of an ignore file, compiled as a builder compiles it
    ignorefile     reading ignore files, and which of them applies
    index          which lines of a long ignore file can match in a directory at all
    walk           which part of a context a builder sends, and the line that decided
    transfer       BuildKit's second filter: only what the Dockerfile names is sent
    words          variable substitution and quote removal in one word
    arguments      words, JSON arrays and flags of one instruction's line
    dockerfile     Dockerfile -> instructions
    forms          forms of instructions that builders refuse
    copy_form      which flags a builder takes with COPY and ADD
    operations     what stages do, with every word expanded
    stages         instructions -> stages of operations
    build          what a builder is called with, and what that comes to
    references     which stage a name means, and which stages need which
    placing        putting files into an image tree: what all builders share
    archives       tar archives that ADD unpacks
    globs_buildah  globs as buildah's copier expands them
    copy_buildkit, copy_classic, copy_buildah   what COPY and ADD do, per family
    runs           which paths a RUN may touch
    evaluate       a Dockerfile and a context -> the tree of each stage
    baseline       a locked base as the start of a stage
    outcome        what can become of an asset, as values
    verdict        assets and trees -> a verdict per asset, with the line that decided
    repair         verdicts -> the least edits of Dockerfile and ignore file
    copying        what a recipe's own build does to its assets, for the gate
    render         reports as text, JSON and GitHub workflow commands
"""
