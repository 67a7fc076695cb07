"""What a call of a program may do to files that are there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import base
from imagegate.coverage.shell.acts import HOLE, Act, Deed
from imagegate.coverage.shell.files import FILE_PROGRAMS, Call, parse
from imagegate.coverage.shell.table import (
    BUILD_TOOLS,
    HARMLESS,
    PREFIXES,
    SHELLS,
    SYSTEM_PACKAGES,
)
from imagegate.coverage.shell.values import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ASKS = frozenset({"--version", "--help", "-version", "--usage"})
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_PIP = re.compile(r"pip[\d.]*")
_IMPORTS = re.compile(
    r"\s*(import\s[\w.,\s]+|from\s+[\w.]+\s+import\s+[\w*,\s]+|print\([^()]*(\([^()]*\)[^()]*)*\)"
    r"|assert\s[^;\n()]*(\([^()]*\))?[^;\n()]*|sys\.exit\([^()]*\)|pass)?\s*"
)


def acts_of_call(call: Call) -> Iterator[Act]:
    """Yield what the call may do."""
    name = call.name
    if HOLE in name:
        yield call.act(Deed.OPAQUE, _operands(call))
        return
    if any(word[0] in _ASKS for word in call.words):
        return
    known = FILE_PROGRAMS.get(name) or _PROGRAMS.get(name)
    if known is not None:
        yield from known(call)
    elif name in PREFIXES:
        yield from _prefixed(call)
    elif name in SHELLS:
        yield from _shell(call)
    elif _PYTHON.fullmatch(name):
        yield from _python(call)
    elif _PIP.fullmatch(name):
        yield from _pip(call)
    elif name in SYSTEM_PACKAGES:
        yield from _packages(call)
    elif name in BUILD_TOOLS:
        yield call.act(Deed.BUILD)
    elif name not in HARMLESS:
        yield call.act(Deed.OPAQUE, _operands(call))


def _operands(call: Call) -> list[str]:
    """Return the words of a call that may be paths, values of options too."""
    found: list[str] = []
    for word in call.words:
        for text in word:
            value = text.partition("=")[2] if text.startswith("-") or "=" in text else text
            if value and not value.startswith("-") and "://" not in value:
                found.append(value)
    return found


def _prefixed(call: Call) -> Iterator[Act]:
    """``sudo -u x command …``: the command behind the options, numbers and assignments."""
    valued = PREFIXES[call.name]
    waiting = list(call.words)
    skips_one = call.name in {"timeout", "gosu", "su-exec", "flock"}
    while waiting:
        text = waiting[0][0]
        if text.startswith("-") and len(text) > 1:
            waiting.pop(0)
            if text in valued and waiting:
                waiting.pop(0)
        elif re.match(r"[A-Za-z_]\w*=", text):
            waiting.pop(0)
        elif skips_one:
            skips_one = False
            waiting.pop(0)
        else:
            break
    if waiting:
        yield from acts_of_call(
            Call(
                text=call.text,
                name=base(plain(waiting[0][0])),
                words=tuple(waiting[1:]),
                scope=call.scope,
            )
        )


def _shell(call: Call) -> Iterator[Act]:
    """``sh -c TEXT`` is read, ``sh FILE`` is opaque."""
    waiting = list(call.words)
    while waiting and waiting[0][0].startswith(("-", "+")):
        letters = waiting.pop(0)[0]
        if letters == "-o" and waiting:
            waiting.pop(0)
        elif "c" in letters and not letters.startswith("--") and waiting:
            yield from _text(call, waiting[0])
            return
    if waiting or not call.words:
        # the script itself is read, what it is given may be changed
        yield call.act(Deed.OPAQUE, [text for word in waiting[1:] for text in word])


def _text(call: Call, word: tuple[str, ...]) -> Iterator[Act]:
    from imagegate.coverage.shell.runs import acts_of_text

    for text in word:
        if HOLE in text:
            yield call.act(Deed.OPAQUE)
        # a hole in a script that is known otherwise is a word that is not known
        yield from acts_of_text(plain(text).replace(HOLE, "$_"), call.scope.inner())


def _eval(call: Call) -> Iterator[Act]:
    joined = " ".join(word[0] for word in call.words)
    yield from _text(call, (joined,))


def _su(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-c -s -g -G --command --shell")
    for text in parsed.value("-c", "--command"):
        yield from _text(call, (text,))


def _python(call: Call) -> Iterator[Act]:
    waiting = list(call.words)
    while waiting and waiting[0][0].startswith("-"):
        option = waiting.pop(0)[0]
        if option == "-c" and waiting:
            if not _only_looks(plain(waiting[0][0])):
                yield call.act(Deed.OPAQUE, [plain(waiting[0][0])])
            return
        if option.startswith("-m"):
            module = option[2:] or (waiting.pop(0)[0] if waiting else "")
            yield from _module(replace(call, words=tuple(waiting)), module)
            return
        if option in {"-W", "-X"} and waiting:
            waiting.pop(0)
        if option in {"-V", "-VV"}:
            return
    if not waiting:
        if not call.words:
            yield call.act(Deed.OPAQUE)
        return
    script, rest = waiting[0][0], waiting[1:]
    if base(script) == "setup.py":
        yield call.act(Deed.PACKAGE, [script.removesuffix("setup.py") or "."])
        return
    yield call.act(Deed.OPAQUE, _operands(replace(call, words=tuple(rest))))


def _only_looks(code: str) -> bool:
    """Say whether Python code only imports and prints."""
    return all(_IMPORTS.fullmatch(line) for line in re.split(r"[;\n]", code))


def _module(call: Call, module: str) -> Iterator[Act]:
    match module:
        case "pip":
            yield from _pip(call)
        case "build" | "flit" | "hatch" | "installer":
            yield call.act(Deed.PACKAGE, _folders(call, "-o --outdir -C --config-setting"))
        case (
            "compileall" | "py_compile" | "ensurepip" | "site" | "pytest" | "unittest" | "json.tool"
        ):
            return
        case "venv" | "virtualenv":
            yield call.act(Deed.MAKE, parse(call.words, "--prompt -p --python").paths)
        case "uv":
            yield from _uv(call)
        case (
            "spacy" | "nltk.downloader" | "playwright" | "bitsandbytes" | "torch.utils.collect_env"
        ):
            return
        case _:
            yield call.act(Deed.OPAQUE, _operands(call))


def _folders(call: Call, valued: str) -> list[str]:
    return parse(call.words, valued).paths or ["."]


_PIP_VALUED = (
    "-r -c -e -t -f -i -d -w --requirement --constraint --editable --target --find-links "
    "--index-url --extra-index-url --dest --wheel-dir --prefix --root --python --platform "
    "--python-version --implementation --abi --only-binary --no-binary --trusted-host --timeout "
    "--retries --progress-bar --cache-dir --log --proxy --cert --config-settings -C --extra "
    "--group --exclude-newer --index-strategy --torch-backend --link-mode --keyring-provider "
    "--refresh-package --reinstall-package --upgrade-package -P -p --override --resolution "
    "--prerelease --no-build-package --no-binary-package --build-constraint --src --hash "
    "--global-option --build-option --report --upgrade-strategy --root-user-action --project "
    "--package --directory --default-index --index --only-group --no-group --no-extra "
    "--no-install-package --env-file"
)


def _pip(call: Call) -> Iterator[Act]:
    if not call.words or call.words[0][0] not in {"install", "wheel"}:
        return
    parsed = parse(call.words[1:], _PIP_VALUED)
    editable = parsed.value("-e", "--editable")
    for text in [*editable, *parsed.paths]:
        path = re.sub(r"\[[^\]]*\]$", "", plain(text))
        path = path.partition(" @ ")[2] if " @ " in path else path
        path = path.removeprefix("file://")
        local = path.startswith((".", "/", HOLE)) or path.endswith(".whl") or path in editable
        if local and "://" not in path:
            yield call.act(Deed.PACKAGE, [path])


def _uv(call: Call) -> Iterator[Act]:
    words = list(call.words)
    while words and words[0][0].startswith("-"):
        words.pop(0)
    verb = words[0][0] if words else ""
    rest = replace(call, words=tuple(words[1:]))
    if verb == "pip":
        yield from _pip(rest)
    elif verb in {"sync", "build"}:
        parsed = parse(rest.words, _PIP_VALUED)
        if not parsed.has("--no-install-project", "--no-install-workspace", "--no-install-local"):
            yield call.act(Deed.PACKAGE, list(parsed.value("--directory", "--project")) or ["."])
    elif verb == "run":
        parsed_words = list(rest.words)
        while parsed_words and parsed_words[0][0].startswith("-"):
            option = parsed_words.pop(0)[0]
            if option in {*_PIP_VALUED.split(), "--with"} and parsed_words:
                parsed_words.pop(0)
        if parsed_words:
            name = base(plain(parsed_words[0][0]))
            yield from acts_of_call(
                Call(text=call.text, name=name, words=tuple(parsed_words[1:]), scope=call.scope)
            )


def _project(call: Call) -> Iterator[Act]:
    """``poetry install`` and its relatives install the project they stand in."""
    verb = next((word[0] for word in call.words if not word[0].startswith("-")), "")
    if verb in {"install", "sync", "build"} and not parse(call.words).has("--no-root", "--no-self"):
        yield call.act(Deed.PACKAGE, ["."])


def _packages(call: Call) -> Iterator[Act]:
    """A package manager; what runs scripts of the project builds."""
    verbs = [word[0] for word in call.words if not word[0].startswith("-")]
    verb = verbs[0] if verbs else ""
    if call.name in {"npm", "pnpm", "yarn", "bun", "bundle", "composer"} and verb in {
        "run",
        "run-script",
        "exec",
        "build",
        "start",
        "test",
        "x",
        "dlx",
        "workspace",
    }:
        yield call.act(Deed.BUILD)
    elif call.name in {"R", "Rscript"}:
        yield call.act(Deed.OPAQUE, [text for text in verbs if "/" in text])
    elif call.name in {"conda", "mamba", "micromamba"} and verb == "run":
        words = list(call.words[1:])
        while words and words[0][0].startswith("-"):
            if words.pop(0)[0] in {"-n", "-p", "--name", "--prefix"} and words:
                words.pop(0)
        if words:
            name = base(plain(words[0][0]))
            yield from acts_of_call(
                Call(text=call.text, name=name, words=tuple(words[1:]), scope=call.scope)
            )
    elif call.name == "dpkg-deb" and parse(call.words).has("-x", "-R", "--extract"):
        yield call.act(Deed.FILL, (), target=call.place(verbs[-1]))


# -- from elsewhere


def _curl(call: Call) -> Iterator[Act]:
    parsed = parse(
        call.words,
        "-o -H -d -u -X -A -b -c -e -F -T -m -w -x -r -E --output --output-dir --header --data "
        "--user --request --retry --retry-delay --retry-max-time --max-time --connect-timeout "
        "--user-agent --cookie --form --proxy --cacert --cert --key --range --resolve --url "
        "--write-out --proto --speed-limit --speed-time",
    )
    folder = next(iter(parsed.value("--output-dir")), "")
    places = list(parsed.value("-o", "--output"))
    if parsed.has("-O", "--remote-name", "--remote-name-all"):
        places += [base(text.partition("?")[0]) for text in parsed.paths]
    yield call.act(Deed.WRITE, [f"{folder}/{place}" if folder else place for place in places])


def _wget(call: Call) -> Iterator[Act]:
    parsed = parse(
        call.words,
        "-O -P -o -a -i -t -T -w -U -e --output-document --directory-prefix --output-file "
        "--input-file --tries --timeout --wait --header --user --password --user-agent --execute",
    )
    given = parsed.value("-O", "--output-document")
    if given:
        yield call.act(Deed.WRITE, [place for place in given if place != "-"])
        return
    folder = next(iter(parsed.value("-P", "--directory-prefix")), ".")
    names = [base(text.partition("?")[0]) for text in parsed.paths]
    yield call.act(Deed.WRITE, [f"{folder}/{name}" for name in names])


def _git(call: Call) -> Iterator[Act]:
    words = list(call.words)
    folder = "."
    while words and words[0][0].startswith("-"):
        option = words.pop(0)[0]
        if option in {"-C", "-c", "--git-dir", "--work-tree"} and words:
            value = words.pop(0)[0]
            folder = value if option in {"-C", "--work-tree"} else folder
    verb = words[0][0] if words else ""
    if verb == "clone":
        parsed = parse(
            words[1:],
            "-b -o -u -c -j --branch --depth --origin --config --reference --separate-git-dir "
            "--filter --jobs --template",
        )
        operands = parsed.paths
        named = base(operands[0]).removesuffix(".git") if operands else ""
        goal = operands[1] if len(operands) > 1 else named
        yield call.act(Deed.FILL, (), target=call.place(goal))
    elif verb in {
        "checkout", "reset", "clean", "apply", "am", "pull", "merge", "rebase", "restore", "stash",
        "switch", "mv", "rm", "submodule", "lfs", "cherry-pick", "revert", "sparse-checkout",
        "worktree", "filter-branch", "read-tree", "checkout-index",
    }:  # fmt: skip
        yield call.act(Deed.FILL, (), target=call.place(folder))


def _xargs(call: Call) -> Iterator[Act]:
    """The operands come from another command: they are not known."""
    words = list(call.words)
    valued = {
        "-n",
        "-I",
        "-P",
        "-d",
        "-L",
        "-s",
        "-a",
        "-E",
        "--max-args",
        "--max-procs",
        "--arg-file",
    }
    holder = ""
    while words and words[0][0].startswith("-"):
        option = words.pop(0)[0]
        if option in valued and words:
            value = words.pop(0)[0]
            holder = value if option == "-I" else holder
        elif option.startswith("-I"):
            holder = option[2:]
    if not words:
        return
    fed = tuple(
        tuple(text.replace(holder, HOLE) for text in word) if holder else word for word in words[1:]
    )
    more = () if holder else ((HOLE,),)
    yield from acts_of_call(
        Call(text=call.text, name=base(plain(words[0][0])), words=(*fed, *more), scope=call.scope)
    )


def _make(call: Call) -> Iterator[Act]:
    yield call.act(Deed.OPAQUE)


def _aria(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-o -d -x -s -j --out --dir")
    folder = next(iter(parsed.value("-d", "--dir")), ".")
    yield call.act(Deed.FILL, (), target=call.place(folder))


def _source(_call: Call) -> Iterator[Act]:
    """A sourced file sets variables as a rule; what it may do besides is not known."""
    yield _call.act(Deed.OPAQUE)


_SOURCED = re.compile(
    r".*/(activate|env|\.?bashrc|\.?profile|os-release|conda\.sh|nvm\.sh|setvars\.sh|\.cargo/env)"
)


def _dot(call: Call) -> Iterator[Act]:
    texts = call.words[0] if call.words else ()
    if not all(_SOURCED.fullmatch(f"/{text}") for text in texts):
        yield from _source(call)


_PROGRAMS: dict[str, Callable[[Call], Iterator[Act]]] = {
    ".": _dot,
    "source": _dot,
    "eval": _eval,
    "su": _su,
    "runuser": _su,
    "uv": _uv,
    "poetry": _project,
    "pdm": _project,
    "hatch": _project,
    "flit": _project,
    "curl": _curl,
    "wget": _wget,
    "aria2c": _aria,
    "git": _git,
    "xargs": _xargs,
    "parallel": _xargs,
    "make": _make,
    "gmake": _make,
    "ninja": _make,
    "just": _make,
    "task": _make,
}


def call_of(text: str, words: Sequence[tuple[str, ...]], scope: object) -> Call:
    """Return the call of the program that `words` begin with."""
    from imagegate.coverage.shell.values import Scope

    assert isinstance(scope, Scope)
    name = words[0][0] if len(words[0]) == 1 else HOLE
    return Call(text=text, name=base(plain(name)), words=tuple(words[1:]), scope=scope)
