"""What was read out of an image: verbatim, located, not interpreted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SiteDirectory:
    """A directory from which a Python interpreter imports installed distributions.

    Attributes:
        path: without leading slash.
        python: ``major.minor`` of the interpreter, ``"3"`` where the path names only the major.
    """

    path: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Distribution:
    """One installed distribution (PEP 376, PEP 566, core metadata).

    Attributes:
        name: as the metadata writes it; compare by PEP 503.
        version: as the metadata writes it.
        path: the ``.dist-info`` or ``.egg-info`` that says so.
        site: the site directory it belongs to.
        requires: ``Requires-Dist`` lines, verbatim.
        extras: ``Provides-Extra`` values, verbatim.
        requires_python: ``Requires-Python``, ``""`` where absent.
        direct_url: text of ``direct_url.json`` (PEP 610), ``""`` where absent.
        recorded: whether it has a ``RECORD`` or, for eggs, an installed-files list.
        linked: the ``.egg-link`` or ``.pth`` of the site directory that brings it in from outside,
            ``""`` for one that lies in the site directory.
        license: ``License-Expression``, else a ``License`` of one line, else its ``License ::``
            classifiers, one after the other with semicolons.
    """

    name: str
    version: str
    path: str
    site: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    requires_python: str = ""
    direct_url: str = ""
    recorded: bool = True
    linked: str = ""
    license: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MetadataRemnant:
    """A metadata directory that names no distribution, such as an uninstaller leaves behind."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RecordContradiction:
    """A file that is not what a distribution's RECORD says.

    Attributes:
        path: the file.
        distribution: name and version of the distribution that records it.
        recorded: hex SHA-256 that RECORD has.
        found: hex SHA-256 of the file, ``""`` where there is none.
    """

    path: str
    distribution: str
    recorded: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NativeReading:
    """One reading of a GPU library or of a package that carries native code.

    Attributes:
        component: what was read, for instance ``nccl``.
        source: how it was read, for instance ``version string``.
        path: the file it was read from.
        value: what it says, verbatim.
    """

    component: str
    source: str
    path: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LibraryLink:
    """A symbolic link among the watched libraries: where it leads is a pin of its own.

    Attributes:
        path: the link.
        target: its text.
        leads_to: the file at its end, ``""`` where it dangles.
    """

    path: str
    target: str
    leads_to: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ElfFile:
    """A program or shared library for an operating system's machine (System V gABI).

    Attributes:
        machine: the machine's name, for instance ``aarch64``.
        needed: ``DT_NEEDED`` in order, verbatim.
        rpath: ``DT_RPATH``, verbatim.
        runpath: ``DT_RUNPATH``, verbatim.
        requires: file and version (``libc.so.6 GLIBC_2.34``), of each series the highest; ``None``
            for a file of a locked base, of which this is not kept.
        provides: versions that it defines, of each series the highest.
        build_id: hex of the GNU build id, ``None`` likewise.
        unread: why its tables could not be read, ``""`` where they were.
    """

    path: str
    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str = ""
    runpath: str = ""
    requires: tuple[str, ...] | None = None
    provides: tuple[str, ...] = ()
    build_id: str | None = None
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SystemPackage:
    """A package of the operating system or of a conda environment.

    Attributes:
        manager: ``dpkg`` or ``conda``.
        name: as the database writes it.
        architecture: the package's architecture; for conda its build string.
        version: verbatim.
        state: dpkg's ``Status`` words; ``install ok installed`` where ``status.d`` leaves it out.
        path: the file of the database that says so.
    """

    manager: str
    name: str
    architecture: str
    version: str
    state: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LoaderFile:
    """A file that tells the dynamic loader where to look (ld.so(8), ldconfig(8)).

    Attributes:
        path: the file.
        lines: what it says without comments and empty lines; of the cache each name and the
            file that is loaded for it.
    """

    path: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StartupFile:
    """A file that a Python interpreter obeys when it starts (module ``site``).

    Attributes:
        path: a ``.pth``, a ``._pth``, or a ``sitecustomize`` or ``usercustomize`` of any form,
            wherever it lies: whether its folder is searched is not asked here.
        code: lines that are executed; one line naming the module where the file is one.
        inserts: lines that are put on ``sys.path``.
        sha256: hex SHA-256 of the file.
    """

    path: str
    code: tuple[str, ...] = ()
    inserts: tuple[str, ...] = ()
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Interpreter:
    """A Python interpreter, a virtual environment, or the ``site`` of a standard library.

    Attributes:
        path: the program ``bin/pythonX.Y``, the ``pyvenv.cfg``, or the ``site.py``.
        python: ``major.minor`` where the path tells.
        system_sites: whether a virtual environment sees its interpreter's site directories.
        home: folder of the interpreter that a virtual environment was made with, verbatim.
        folder: of a ``site.py`` how it names site directories: ``site-packages``, or
            ``dist-packages`` as Debian's does outside virtual environments.
    """

    path: str
    python: str = ""
    system_sites: bool = False
    home: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Checkout:
    """A working copy of git.

    Attributes:
        path: its ``.git/HEAD``.
        head: what that says, verbatim.
        commit: the commit that is checked out, ``""`` where there is none.
        remotes: name and address of each, in the order of its configuration.
        local: those addresses that are paths of the image which exist.
        owner: numeric user that it belongs to; git refuses to read that of another one.
        program: whether the image has git.
    """

    path: str
    head: str = ""
    commit: str = ""
    remotes: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    owner: int = 0
    program: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DatabaseEntry:
    """One entry of a database of accounts or packages.

    Attributes:
        path: the database.
        key: the account, the package with its architecture, the path that is diverted.
        digest: hex SHA-256 of the entry's text; accounts have secrets.
    """

    path: str
    key: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts of a tree, each set in its natural order; a set that was not read is ``None``.

    No set has a default: whoever makes facts says of each what was read.
    """

    sites: tuple[SiteDirectory, ...]
    distributions: tuple[Distribution, ...]
    remnants: tuple[MetadataRemnant, ...]
    contradictions: tuple[RecordContradiction, ...] | None
    native: tuple[NativeReading, ...]
    links: tuple[LibraryLink, ...]
    elf: tuple[ElfFile, ...]
    packages: tuple[SystemPackage, ...]
    loader: tuple[LoaderFile, ...]
    startup: tuple[StartupFile, ...]
    interpreters: tuple[Interpreter, ...]
    checkouts: tuple[Checkout, ...]
    entries: tuple[DatabaseEntry, ...]
