"""Whatever stands where a command expects a file: exit 2 or 3, a few plain lines, at once."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.world import World

DEEP = 100_000


def _put(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


ODD: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "not UTF-8": _put(b"\xff\xfe\x00 = \xc3\x28"),
    "NUL": _put(b"schema = 1\0"),
    "nested lists": _put(b"a = " + b"[" * DEEP),
    "nested JSON": _put(b'{"a":' * DEEP),
    "closed JSON": _put(b"[" * DEEP + b"]" * DEEP),
    "a huge number": _put(b'{"schema": ' + b"9" * 10_000 + b"}"),
    "infinity": _put(b'{"schema": Infinity, "size": 1e999, "x": NaN}'),
    "a lone surrogate": _put(b'{"schema": "\\ud800", "\\udfff": 1}'),
}
# the file below the workspace, and commands that cannot do without it
READ: dict[str, tuple[tuple[str, ...], ...]] = {
    "images/demo/image.toml": (("verify", "demo"), ("lock", "demo"), ("build", "demo")),
    "images/demo/requirements.in": (("lock", "demo"),),
    "locks/demo/lock.json": (("verify", "demo"), ("build", "demo")),
    "locks/demo/layer.zst": (("verify", "demo"),),
    "locks/demo/assets.json": (("verify", "demo"),),
    "locks/bases/BASE/base.json": (("verify", "demo"), ("build", "demo")),
    "locks/bases/BASE/manifest.json": (("verify", "demo"),),
    "locks/bases/BASE/config.json": (("verify", "demo"),),
    "locks/bases/BASE/files.zst": (("verify", "demo"),),
    "build/demo/index.json": (("verify", "demo"),),
    "build/demo/oci-layout": (("verify", "demo"),),
    "coverage.toml": (("coverage", "--config", "FILE"),),
    "facts.json": (("launch", "check", "demo", "--facts", "FILE"),),
    "trust.toml": (("promote", "demo", "--trust-config", "FILE"),),
    "key.pub": (("verify", "demo", "--attested", "--key", "FILE"),),
}


@pytest.fixture
def at_once() -> Iterator[None]:
    """A test that waits for a pipe or reads a device fails instead of hanging."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        pytest.fail("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READ)
@pytest.mark.usefixtures("at_once")
def test_no_odd_file_is_taken_for_a_verdict(
    name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    base = world.base_lock.name
    path = world.root / name.replace("BASE", base)
    whole = path.read_bytes() if path.exists() else None
    wrong = []
    for odd, make in ODD.items():
        for command in READ[name]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            make(path)
            capsys.readouterr()
            code = world.run(*(str(path) if word == "FILE" else word for word in command))
            said = capsys.readouterr().err
            if code not in {2, 3} or "unexpected" in said or "Traceback" in said or not said:
                wrong.append(f"{odd}: {' '.join(command)}: {code}: {said[-300:]}")
    assert not wrong, "\n".join(wrong)
    if whole is not None:  # the file itself was what they missed
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.write_bytes(whole)
        assert world.run("verify", "demo") == 0
