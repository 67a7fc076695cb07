"""The names in a published profile: which the gate measures, which nobody may set, which are free.

A profile is read by make, docker compose, systemd and ``sh``. What the gate found out
(:class:`Measured`) and what the recipe's author says (:class:`Declared`) are two types; they meet
in :func:`published` and nowhere else, and what is measured always wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.facts import Facts
    from imagegate.oci.digest import Digest

PROFILE = "IMAGEGATE_PROFILE"
SECRETS = "IMAGEGATE_SECRETS"
IMAGE = "IMAGE"
IMAGE_ID = "IMAGE_ID"
IMAGE_DIGEST = "IMAGE_DIGEST"
IMAGE_PLATFORM = "IMAGE_PLATFORM"
BASE_DIGEST = "BASE_DIGEST"
LOCK_DIGEST = "LOCK_DIGEST"
VERDICT = "VERDICT"
_FIXED = (IMAGE, IMAGE_ID, IMAGE_DIGEST, IMAGE_PLATFORM, BASE_DIGEST, LOCK_DIGEST, VERDICT)
# the variable that launchers get, to the component and the way it is read
PINS = {
    "NCCL_VERSION": ("nccl", "version string"),
    "TORCH_VERSION": ("torch", "version.py"),
    "VLLM_VERSION": ("vllm", "_version.py"),
    "FLASHINFER_VERSION": ("flashinfer-python", "_build_meta.py"),
}


def pin_variable(pin: str) -> str:
    """Name the variable of a pin: ``aws-ofi-nccl`` is ``AWS_OFI_NCCL_VERSION``."""
    return re.sub(r"[^A-Z0-9]+", "_", pin.upper()).strip("_") + "_VERSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """Variables that act on whoever reads the profile, and on what."""

    names: re.Pattern[str]
    acts_on: str


def _kind(acts_on: str, *names: str) -> _Kind:
    pattern = "|".join(re.escape(name).replace(r"\*", r"\w*") for name in names)
    return _Kind(names=re.compile(pattern, re.IGNORECASE), acts_on=acts_on)


_KINDS = (
    # POSIX.1-2024, 8.3 and "Shell Command Language", 2.5.3; bash(1), "Shell Variables"; zsh's
    _kind(
        "the shell",
        *("PATH", "IFS", "ENV", "SHELL", "HOME", "PWD", "OLDPWD", "CDPATH", "PS0", "PS1", "PS2"),
        *("PS3", "PS4", "PROMPT_*", "SHELLOPTS", "BASH*", "FPATH", "FCEDIT", "HIST*", "INPUTRC"),
        *("GLOBIGNORE", "FIGNORE", "EXECIGNORE", "FUNCNEST", "MAIL", "MAILPATH", "MAILCHECK"),
        *("POSIXLY_CORRECT", "TIMEFORMAT", "TMOUT", "OPTARG", "OPTERR", "OPTIND", "LINENO"),
        *("UID", "EUID", "GID", "EGID", "PPID", "GROUPS", "USER", "USERNAME", "LOGNAME", "RANDOM"),
        *("SECONDS", "EPOCH*", "DIRSTACK", "FUNCNAME", "HOSTFILE", "HOSTNAME", "HOSTTYPE"),
        *("MACHTYPE", "OSTYPE", "PIPESTATUS", "REPLY", "COMP_*", "COMPREPLY", "READLINE_*"),
        *("ZDOTDIR", "ZSH*", "ZLE_*", "TERMINFO", "TERMCAP", "EDITOR", "VISUAL", "PAGER", "LESS"),
        *("LESSOPEN", "LESSCLOSE", "TMPDIR", "TMPPREFIX", "_", "NULLCMD", "READNULLCMD", "SUDO_*"),
    ),
    # the manual of ld.so; glibc, sysdeps/generic/unsecvars.h; dyld(1)
    _kind(
        "the dynamic loader or the C library",
        *("LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "HOSTALIASES"),
        *("LOCALDOMAIN", "LOCPATH", "MALLOC_TRACE", "MALLOC_CHECK_", "NIS_PATH", "NLSPATH"),
        *("RESOLV_*", "RES_OPTIONS", "TZDIR", "LIBC_*", "OPENSSL_*", "SSL_CERT_*", "SSLKEYLOGFILE"),
    ),
    # GNU make, "Variables Used by Implicit Rules" and "Communicating Options to a Sub-make"
    _kind(
        "make",
        *("MAKE", "MAKEFLAGS", "MAKEFILES", "MAKEFILE_LIST", "MAKELEVEL", "MAKEOVERRIDES"),
        *("MAKECMDGOALS", "MAKESHELL", "MAKE_*", "MFLAGS", "GNUMAKEFLAGS", "VPATH", "GPATH"),
        *("CURDIR", "SUFFIXES", "RM", "COMSPEC"),
    ),
    # docker(1), compose's and buildx's references, podman(1), containers.conf(5), kubectl
    _kind(
        "the container engine",
        *("DOCKER_*", "COMPOSE_*", "BUILDKIT_*", "BUILDX_*", "BUILDAH_*", "BUILDCTL_*"),
        *("CONTAINER_*", "CONTAINERS_*", "CONTAINERD_*", "PODMAN_*", "NERDCTL_*", "CNI_*"),
        *("NETAVARK_*", "REGISTRY_AUTH_FILE", "STORAGE_DRIVER", "STORAGE_OPTS", "CRI_*"),
        *("KUBECONFIG", "KUBE_*", "KUBERNETES_*", "HELM_*", "XDG_*", "DBUS_*", "SSH_*", "GODEBUG"),
        *("GOTRACEBACK", "CRIU_*", "CRUN_*", "RUNC_*", "OCI_*", "NVIDIA_DISABLE_REQUIRE"),
    ),
    # the manual of systemd.exec, "Environment Variables Set or Propagated by the Service Manager"
    _kind(
        "systemd",
        *("SYSTEMD_*", "NOTIFY_SOCKET", "LISTEN_*", "MAINPID", "MANAGERPID", "MANAGERPIDFDID"),
        *("INVOCATION_ID", "JOURNAL_STREAM", "WATCHDOG_*", "RUNTIME_DIRECTORY", "STATE_DIRECTORY"),
        *("CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY"),
        *("EXIT_CODE", "EXIT_STATUS", "SERVICE_RESULT", "MONITOR_*", "TRIGGER_*", "PIDFILE"),
        *("REMOTE_ADDR", "REMOTE_PORT", "MEMORY_PRESSURE_*", "FDSTORE", "DEBUG_INVOCATION"),
    ),
    # python(1), perlrun(1), ruby(1), node(1): each runs or finds code before the program's own
    _kind(
        "an interpreter that the launcher or the image starts",
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
        *("PYTHONEXECUTABLE", "PYTHONPYCACHEPREFIX", "PYTHONBREAKPOINT", "PYTHONINSPECT"),
        *("PYTHONCASEOK", "PYTHONSAFEPATH", "PYTHONNOUSERSITE", "PYTHONWARNINGS", "PYTHON_*"),
        *("PYTHONOPTIMIZE", "VIRTUAL_ENV", "CONDA_*", "PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB"),
        *("NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "LUA_*", "GIT_*"),
    ),
)


def refusal(name: str, pins: Iterable[str] = ()) -> str | None:
    """Say why a recipe must not set a variable in its profile; ``None`` where it may.

    Args:
        name: the variable; compared in any letter case, as some readers do.
        pins: the recipe's pins, whose measured versions are written too.
    """
    upper = name.upper()
    if upper.startswith("IMAGEGATE_") or upper in _FIXED:
        return f"`{name}` is measured: the gate writes it from what it found"
    if upper in PINS or upper in {pin_variable(pin) for pin in pins}:
        return f"`{name}` is measured: the gate writes the version that it read from the bytes"
    for kind in _KINDS:
        if kind.names.fullmatch(name):
            return f"`{name}` would change {kind.acts_on} for everybody who reads the profile"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the gate found out about an image and writes into its profile.

    Attributes:
        profile: the profile's name.
        repository: where the image is, without tag and digest; ``""`` where no registry has it.
        image: digest of its manifest.
        image_id: digest of its config, by which engines without a registry know it.
        platform: ``os/architecture[/variant]``.
        base: digest of the base's manifest, or ``scratch``.
        lock: digest of the lock.
        verdict: digest of the verdict's JSON.
        pins: variable to the version that the bytes say.
    """

    profile: str
    repository: str
    image: Digest
    image_id: Digest
    platform: str
    base: str
    lock: Digest
    verdict: Digest
    pins: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Return the measured lines of the profile."""
        return {
            **self.pins,
            PROFILE: self.profile,
            IMAGE: f"{self.repository}@{self.image}",
            IMAGE_ID: str(self.image_id),
            IMAGE_DIGEST: str(self.image),
            IMAGE_PLATFORM: self.platform,
            BASE_DIGEST: self.base,
            LOCK_DIGEST: str(self.lock),
            VERDICT: str(self.verdict),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the recipe's author hands on to launchers.

    Attributes:
        env: the variables.
        secrets: names that a launcher has to set itself; their values are in no file of ours.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def pins_in(facts: Facts) -> dict[str, str]:
    """Return what the bytes of an image say of the versions that launchers are told."""
    values = {}
    for variable, (component, source) in PINS.items():
        found = {
            reading.value
            for reading in facts.native
            if (reading.component, reading.source) == (component, source)
        }
        if len(found) == 1:  # several different copies are no pin that one line could state
            values[variable] = found.pop()
    return values


def published(measured: Measured, declared: Declared) -> dict[str, str]:
    """Put together what a profile says.

    Raises:
        ProfileError: a declared name is one that is measured, or that nobody may set.
    """
    lines = measured.variables()
    taken = {name.upper() for name in lines}
    for name in (*declared.env, *declared.secrets):
        reason = refusal(name)
        if reason is None and name.upper() in taken:
            reason = f"`{name}` is measured: the gate writes it from what it found"
        if reason is not None:
            raise ProfileError(reason, hint="take it out of the recipe's profile")
    if declared.secrets:
        lines[SECRETS] = ",".join(sorted(declared.secrets))
    return {**declared.env, **lines}
