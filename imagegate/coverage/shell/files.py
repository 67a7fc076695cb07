"""Programs whose effect on files follows from their words: coreutils, find, sed, tar and others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import base
from imagegate.coverage.shell.acts import HOLE, Act, Deed
from imagegate.coverage.shell.values import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from imagegate.coverage.shell.values import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of one program.

    Attributes:
        text: as written, for people.
        name: the program.
        words: its arguments, each as the texts that it may stand for.
        scope: variables and working directory.
    """

    text: str
    name: str
    words: tuple[tuple[str, ...], ...]
    scope: Scope = field(repr=False)

    def act(self, deed: Deed, paths: Sequence[str] = (), **more: object) -> Act:
        """Return an effect of this call on `paths`, made absolute."""
        found = tuple(dict.fromkeys(self.scope.absolute(path) for path in paths))
        return Act(deed=deed, text=self.text, paths=found, **more)  # type: ignore[arg-type]

    def place(self, path: str) -> str:
        """Return `path` made absolute."""
        return self.scope.absolute(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Options and operands of a call.

    Attributes:
        options: values of each option, an empty text for one without a value.
        operands: the rest, every text that each may stand for.
    """

    options: Mapping[str, tuple[str, ...]]
    operands: tuple[tuple[str, ...], ...]

    def has(self, *names: str) -> bool:
        """Say whether one of the options is there."""
        return any(name in self.options for name in names)

    def value(self, *names: str) -> tuple[str, ...]:
        """Return the values of the first of the options that is there."""
        return next((self.options[name] for name in names if name in self.options), ())

    @property
    def paths(self) -> list[str]:
        """Every text that an operand may stand for."""
        return [text for operand in self.operands for text in operand]


def parse(
    words: Sequence[tuple[str, ...]], valued: str = "", *, single_dash: bool = False
) -> Parsed:
    """Split words into options and operands, as ``getopt_long`` does.

    Args:
        words: the arguments.
        valued: letters and long names (blank between them) of options that take a value.
        single_dash: long options have one dash (``find``, ``openssl``).
    """
    names = set(valued.split())
    options: dict[str, tuple[str, ...]] = {}
    operands: list[tuple[str, ...]] = []
    waiting = iter(words)
    for word in waiting:
        text = word[0]
        if len(word) == 1 and text == "--":
            operands += list(waiting)
        elif len(text) < 2 or not text.startswith("-"):
            operands.append(word)
        elif text.startswith("--") or single_dash:
            name, equals, value = text.partition("=")
            if name in names and not equals:
                options[name] = (*options.get(name, ()), *next(waiting, ("",)))
            else:
                options[name] = (*options.get(name, ()), value)
        else:
            _letters(text, word, names, options, waiting)
    return Parsed(options=options, operands=tuple(operands))


def _letters(
    text: str,
    word: tuple[str, ...],
    names: set[str],
    options: dict[str, tuple[str, ...]],
    waiting: Iterator[tuple[str, ...]],
) -> None:
    """Take ``-abc``, where a letter that has a value takes the rest or the next word."""
    for number, letter in enumerate(text[1:], start=1):
        name = f"-{letter}"
        if name not in names:
            options[name] = (*options.get(name, ()), "")
            continue
        rest = tuple(one[number + 1 :] for one in word)
        value = rest if rest[0] else next(waiting, ("",))
        options[name] = (*options.get(name, ()), *value)
        return


# -- coreutils


def _remove(call: Call) -> Iterator[Act]:
    yield call.act(Deed.REMOVE, parse(call.words).paths)


def _change(call: Call) -> Iterator[Act]:
    yield call.act(Deed.CHANGE, parse(call.words, "-s -n -r --size --reference").paths)


def _make(call: Call) -> Iterator[Act]:
    yield call.act(Deed.MAKE, parse(call.words, "-m -Z --mode --context").paths)


def _touch(call: Call) -> Iterator[Act]:
    yield call.act(Deed.WRITE, (), contents=True)


def _copy(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-t -S -Z --target-directory --suffix --context")
    yield from transfer(call, parsed, Deed.MOVE if call.name == "mv" else Deed.COPY)


def transfer(call: Call, parsed: Parsed, deed: Deed) -> Iterator[Act]:
    """Yield the copies of ``cp a b``, ``cp a… dir``, ``cp -t dir a…``."""
    folders = parsed.value("-t", "--target-directory")
    operands = list(parsed.operands)
    if folders:
        targets = folders
    elif len(operands) > 1:
        targets = operands.pop()
    else:
        return
    exact = parsed.has("-T", "--no-target-directory")
    paths = [text for operand in operands for text in operand]
    for target in targets:
        into = bool(folders) or len(operands) > 1 or target.endswith(("/", "/."))
        whole = [path for path in paths if not path.endswith(("/.", "/./"))]
        inner = [path for path in paths if path.endswith(("/.", "/./")) or path == "."]
        if whole:
            yield call.act(
                deed, whole, target=call.place(target), into=into and not exact, contents=exact
            )
        if inner:
            yield call.act(deed, inner, target=call.place(target), contents=True)


def _link(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-t -S --target-directory --suffix")
    operands = list(parsed.operands)
    folders = parsed.value("-t", "--target-directory")
    places: tuple[str, ...] = folders or (operands.pop() if len(operands) > 1 else (".",))
    soft = parsed.has("-s", "--symbolic")
    exact = parsed.has("-n", "-T", "--no-dereference", "--no-target-directory")
    for place in places:
        into = bool(folders) or place == "." or place.endswith("/") or len(operands) > 1
        sources = [text for operand in operands for text in operand]
        if not soft:
            yield call.act(Deed.COPY, sources, target=call.place(place), into=into)
            continue
        goal = call.place(place)
        for source in sources:
            yield Act(
                deed=Deed.LINK,
                text=call.text,
                paths=(source,),
                target=goal,
                into=into,
                contents=exact,
                replaces=parsed.has("-f", "--force"),
            )


def _install(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-m -o -g -t -S --mode --owner --group --target-directory --suffix")
    if parsed.has("-d", "--directory"):
        yield call.act(Deed.MAKE, parsed.paths)
        return
    yield from transfer(call, parsed, Deed.COPY)


def _rsync(call: Call) -> Iterator[Act]:
    valued = "-e -f -T -B --exclude --include --filter --chmod --chown --files-from --rsync-path"
    parsed = parse(call.words, valued)
    operands = list(parsed.operands)
    if len(operands) < 2:
        return
    targets = operands.pop()
    deed = Deed.MOVE if parsed.has("--remove-source-files") else Deed.COPY
    for target in targets:
        if any(option.startswith("--del") for option in parsed.options):
            yield call.act(Deed.CHANGE, [target])
        for operand in operands:
            contents = [path for path in operand if path.endswith(("/", "/."))]
            whole = [path for path in operand if path not in contents]
            place = call.place(target)
            if contents:
                yield call.act(deed, contents, target=place, contents=True)
            if whole:
                yield call.act(deed, whole, target=place, into=True)


def _tee(call: Call) -> Iterator[Act]:
    yield call.act(Deed.WRITE, parse(call.words).paths)


def _dd(call: Call) -> Iterator[Act]:
    places = [text[3:] for word in call.words for text in word if text.startswith("of=")]
    yield call.act(Deed.WRITE, places)


def _sort(call: Call) -> Iterator[Act]:
    yield call.act(Deed.WRITE, parse(call.words, "-o -k -t -S -T --output").value("-o", "--output"))


# -- editors


def _sed(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-e -f -l --expression --file --line-length")
    in_place = any(name == "-i" or name.startswith("--in-place") for name in parsed.options)
    # `-i.bak` and `-ie` are read as letters behind the first
    if not in_place:
        return
    scripted = parsed.has("-e", "-f", "--expression", "--file")
    operands = parsed.operands if scripted else parsed.operands[1:]
    yield call.act(Deed.CHANGE, [text for operand in operands for text in operand])


def _perl(call: Call) -> Iterator[Act]:
    letters = "".join(
        word[0] for word in call.words if word[0].startswith("-") and not word[0].startswith("--")
    )
    parsed = parse(call.words, "-e -E -I -M")
    if "i" in letters and parsed.has("-e", "-E"):
        yield call.act(Deed.CHANGE, parsed.paths)
    elif parsed.options.keys() <= {"-v", "-V"} and parsed.options:
        return
    else:
        yield call.act(Deed.OPAQUE, parsed.paths)


def _awk(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-F -f -v -i")
    if "inplace" in parsed.value("-i"):
        yield call.act(Deed.CHANGE, parsed.paths)


def _yq(call: Call) -> Iterator[Act]:
    if parse(call.words).has("-i", "--inplace"):
        yield call.act(Deed.CHANGE, parse(call.words).paths[1:])


def _patch(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-p -i -d -o -D -F -r --directory --input --strip --output")
    folders = parsed.value("-d", "--directory") or (".",)
    yield call.act(Deed.CHANGE, parsed.paths[:1] or list(folders))


# -- find and xargs

_TESTS_WITH_VALUE = (
    "-name -iname -path -ipath -wholename -regex -iregex -type -size -mtime -mmin -atime -amin "
    "-ctime -cmin -newer -user -group -uid -gid -perm -maxdepth -mindepth -printf -fprint -links "
    "-inum -samefile -lname -xtype -regextype"
)


def _find(call: Call) -> Iterator[Act]:
    roots: list[str] = []
    words = list(call.words)
    while words and not words[0][0].startswith(("-", "(", "!", "\\(", "\\!")):
        roots += list(words.pop(0))
    roots = roots or ["."]
    names = _names(words)
    texts = [word[0] for word in words]
    if "-delete" in texts:
        yield call.act(Deed.REMOVE, roots, names=names)
    for number, text in enumerate(texts):
        if text in {"-exec", "-execdir", "-ok", "-okdir"}:
            yield from _each(call, words[number + 1 :], roots, names)


def _names(words: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names to which the tests of ``find`` restrict it; with ``!`` none are known."""
    texts = [word[0] for word in words]
    if any(text in {"!", "-not", "\\!"} for text in texts):
        return ()
    # the tests behind an action do not restrict it, and a name may be one of several choices
    found: list[str] = []
    for number, text in enumerate(texts):
        if text in {"-name", "-iname"} and number + 1 < len(words):
            found += words[number + 1]
    others = [text for text in texts if text in {"-o", "-or"}]
    tests = [text for text in texts if text in {"-name", "-iname"}]
    if others and len(tests) <= len(others):
        return ()
    # what `find` takes for a pattern came through the shell as a quoted word
    return tuple(plain(name) for name in found if HOLE not in name)


def _each(
    call: Call, words: Sequence[tuple[str, ...]], roots: list[str], names: tuple[str, ...]
) -> Iterator[Act]:
    """Yield what a command does that is run for each file found."""
    from dataclasses import replace

    from imagegate.coverage.shell.programs import acts_of_call

    command: list[tuple[str, ...]] = []
    for word in words:
        if word[0] in {";", "\\;", "+"}:
            break
        command.append(word)
    if not command:
        return
    found = tuple(f"{root.rstrip('/')}/" for root in roots)
    filled = tuple(found if "{}" in word[0] else word for word in command[1:])
    inner = Call(text=call.text, name=base(plain(command[0][0])), words=filled, scope=call.scope)
    for act in acts_of_call(inner):
        yield replace(act, names=names) if act.deed in {Deed.REMOVE, Deed.CHANGE} else act


# -- archives


def _tar(call: Call) -> Iterator[Act]:
    words = list(call.words)
    if words and not words[0][0].startswith("-"):
        words[0] = tuple(f"-{text}" for text in words[0])  # `tar xzf a`
    parsed = parse(
        words, "-f -C -T -X -b --file --directory --exclude --transform --strip-components"
    )
    if parsed.has("-x", "--extract", "--get"):
        folders = parsed.value("-C", "--directory") or (".",)
        archives = [call.place(path) for path in parsed.value("-f", "--file") if path != "-"]
        for folder in folders:
            yield call.act(Deed.FILL, archives, target=call.place(folder))
    elif parsed.has("-c", "--create", "-r", "-u"):
        yield call.act(Deed.WRITE, parsed.value("-f", "--file"))


def _unzip(call: Call) -> Iterator[Act]:
    parsed = parse(call.words, "-d -x -P")
    if parsed.has("-l", "-t", "-v", "-p") and not parsed.has("-d"):
        return
    folder = next(iter(parsed.value("-d")), ".")
    yield call.act(Deed.FILL, parsed.paths[:1], target=call.place(folder))


def _unpack_in_place(call: Call) -> Iterator[Act]:
    parsed = parse(call.words)
    if parsed.has("-c", "--stdout", "--to-stdout", "-t", "-l"):
        return
    yield call.act(Deed.CHANGE, parsed.paths)


FILE_PROGRAMS: dict[str, Callable[[Call], Iterator[Act]]] = {
    "rm": _remove,
    "unlink": _remove,
    "shred": _remove,
    "mkdir": _make,
    "cp": _copy,
    "mv": _copy,
    "ln": _link,
    "install": _install,
    "rsync": _rsync,
    "tee": _tee,
    "sponge": _tee,
    "truncate": _change,
    "strip": _change,
    "dos2unix": _change,
    "unix2dos": _change,
    "rename": _change,
    "prettier": _change,
    "dd": _dd,
    "sort": _sort,
    "sed": _sed,
    "perl": _perl,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "yq": _yq,
    "patch": _patch,
    "find": _find,
    "tar": _tar,
    "bsdtar": _tar,
    "unzip": _unzip,
    "gzip": _unpack_in_place,
    "gunzip": _unpack_in_place,
    "bzip2": _unpack_in_place,
    "bunzip2": _unpack_in_place,
    "xz": _unpack_in_place,
    "unxz": _unpack_in_place,
    "zstd": _unpack_in_place,
    "unzstd": _unpack_in_place,
}
