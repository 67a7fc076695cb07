"""Base locks that a CI job published with its identity: taken for that identity and no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagegate.lock.sealed import seal
from imagegate.workspace import Workspace
from tests.attested.sigstore_site import IDENTITY, ISSUER, SigstoreSite
from tests.registry import LoopbackRegistry
from tests.world import World

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SigstoreSite]:
    """A job with ``id-token: write`` whose Sigstore is on loopback."""
    with SigstoreSite().running() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "trust.json").write_text(json.dumps(running.trust_config))
        yield running


@pytest.fixture
def signed(homed: World, registry: LoopbackRegistry, site: SigstoreSite, tmp_path: Path) -> str:
    """The base's reference; its lock is published beside it, and forgotten here."""
    config = str(tmp_path / "trust.json")
    assert homed.run("base", "push", "demo", "--keyless", "--trust-config", config) == 0
    assert any(path.endswith("signingCert") for path, _, _ in site.requests)
    image = Workspace(homed.root).lock("demo").base.image
    assert image is not None
    assert registry.netloc in image
    homed.forget_base()
    return image


def trust(folder: Path, identity: str = IDENTITY, issuer: str = ISSUER) -> tuple[str, ...]:
    return ("--trust-identity", identity, issuer, "--trust-config", str(folder / "trust.json"))


def become_another_sigstore(folder: Path) -> None:
    """Replace the configuration by that of an instance with other keys and the same names."""
    with SigstoreSite().running() as other:
        (folder / "trust.json").write_text(json.dumps(other.trust_config))


def name_in_workspace(world: World, folder: Path, identity: str) -> None:
    shutil.copy(folder / "trust.json", world.root / "locks/sigstore.json")
    (world.root / "locks/trust.toml").write_text(
        f'[[trusted]]\nidentity = "{identity}"\nissuer = "{ISSUER}"\n'
        'trust-config = "locks/sigstore.json"\n'
    )


def forge(world: World) -> None:
    """Change a taken base lock and its recipe's as a careful forger would: every digest fits."""
    path = world.base_lock / "base.json"
    document = json.loads(path.read_text())
    del document["digest"]
    document["compressed"] += 1
    path.write_bytes(seal(document))
    lock = json.loads((world.lock / "lock.json").read_text())
    del lock["digest"]
    lock["base"]["lock"] = json.loads(path.read_text())["digest"]
    (world.lock / "lock.json").write_bytes(seal(lock))


def test_a_base_lock_of_a_trusted_identity_is_the_read_one_and_its_signer_is_told(
    homed: World, signed: str, tmp_path: Path, capsys: Captured
) -> None:
    assert homed.run("base", "read", signed) == 0
    read = {path.name: path.read_bytes() for path in homed.base_lock.iterdir()}
    homed.forget_base()
    capsys.readouterr()

    assert homed.run("base", "pull", signed, *trust(tmp_path)) == 0

    assert f"signed by the identity {IDENTITY} of {ISSUER}" in capsys.readouterr().out
    taken = {path.name: path.read_bytes() for path in homed.base_lock.iterdir()}
    assert "bundle" in json.loads(taken.pop("statement.json"))
    assert taken == read
    assert homed.run("verify", "demo") == 0
    assert f"was published by the identity {IDENTITY}" in capsys.readouterr().err
    assert homed.run("base", "list") == 0
    assert f"the identity {IDENTITY} of {ISSUER}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("identity", "issuer"),
    [
        (IDENTITY + "x", ISSUER),
        (IDENTITY[:-1], ISSUER),
        (IDENTITY, "https://issuer.example"),
    ],
)
def test_another_identity_or_another_issuer_is_refused_and_lock_reads_instead(
    homed: World, signed: str, tmp_path: Path, capsys: Captured, identity: str, issuer: str
) -> None:
    capsys.readouterr()
    assert homed.run("base", "pull", signed, *trust(tmp_path, identity, issuer)) == 3
    assert f"it is not signed by {identity} of {issuer}" in capsys.readouterr().err
    assert not homed.base_lock.exists()

    asked = ("lock", "demo", "--format", "json")
    assert homed.run(*asked, *trust(tmp_path, identity, issuer)) == 0
    assert json.loads(capsys.readouterr().out)["locks"][0]["base"] == "read"


def test_another_sigstore_with_the_same_identity_is_refused(
    homed: World, signed: str, tmp_path: Path, capsys: Captured
) -> None:
    """Its authority's names are the same; only its keys are others."""
    become_another_sigstore(tmp_path)
    assert homed.run("base", "pull", signed, *trust(tmp_path)) == 3
    assert "it is not signed by" in capsys.readouterr().err
    assert not homed.base_lock.exists()


def test_the_workspaces_file_names_identities_and_is_asked_at_every_use(
    homed: World, signed: str, tmp_path: Path, capsys: Captured
) -> None:
    assert signed
    name_in_workspace(homed, tmp_path, IDENTITY)
    capsys.readouterr()
    assert homed.run("lock", "demo", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["locks"][0]["base"] == "published"
    assert homed.run("verify", "demo") == 0

    name_in_workspace(homed, tmp_path, IDENTITY + "x")
    assert homed.run("verify", "demo") == 3
    assert f"was signed by the identity {IDENTITY} of {ISSUER}, which" in capsys.readouterr().err

    # the same name at another instance: what was kept beside the lock is not believed
    become_another_sigstore(tmp_path)
    name_in_workspace(homed, tmp_path, IDENTITY)
    assert homed.run("verify", "demo") == 3
    assert "it is not signed by" in capsys.readouterr().err


def test_a_taken_base_lock_that_was_changed_is_refused(
    homed: World, signed: str, tmp_path: Path, capsys: Captured
) -> None:
    assert homed.run("base", "pull", signed, *trust(tmp_path)) == 0
    forge(homed)
    for words in (("verify", "demo"), ("build", "demo"), ("promote", "demo")):
        capsys.readouterr()
        assert homed.run(*words) == 3
        assert "is not the base lock that was signed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        '[[trusted]]\nidentity = "a@b.example"\n',
        '[[trusted]]\nissuer = "https://issuer.example"\n',
        '[[trusted]]\nkey = "k.pub"\nidentity = "a@b.example"\nissuer = "https://i.example"\n',
        '[[trusted]]\nkey = "k.pub"\ntrust-config = "c.json"\n',
        "[[trusted]]\n",
        '[[trusted]]\nidentity = "a@b.example"\nissuer = "not a url"\n',
        '[[trusted]]\nidentity = "a@b.example"\nissuer = "https://i.example"\ntrust-config = "no"\n',
    ],
)
def test_half_an_identity_in_the_workspaces_file_is_refused(
    homed: World, signed: str, capsys: Captured, text: str
) -> None:
    (homed.root / "locks/trust.toml").write_text(text)
    assert homed.run("base", "pull", signed) == 2
    assert "hint:" in capsys.readouterr().err or '"no"' in text


def test_contradicting_options_are_refused(homed: World, tmp_path: Path, capsys: Captured) -> None:
    config = tmp_path / "trust.json"
    config.write_text("{}")
    alone = ("--trust-config", str(config))
    assert homed.run("base", "pull", "demo", *alone) == 2
    assert homed.run("lock", "demo", *alone) == 2
    assert capsys.readouterr().err.count("is for `--trust-identity`: give both") == 2
    assert homed.run("base", "push", "demo", "--sign", str(config), *alone) == 2
    assert "is for `--keyless`: give both" in capsys.readouterr().err
