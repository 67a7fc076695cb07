from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.errors import FetchError
from imagegate.sources.registry.credentials import Credentials, DockerCredentials

if TYPE_CHECKING:
    from pathlib import Path


def basic(username: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{username}:{password}".encode()).decode()}


def write(path: Path, config: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))
    return path


def account(name: str, password: str = "p") -> Credentials:
    return Credentials(username=name, password=password)


def helper(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        (None, "home/.docker/config.json"),
        (None, "home/.config/containers/auth.json"),
        ("REGISTRY_AUTH_FILE", "named/auth.json"),
        ("DOCKER_CONFIG", "named/config.json"),
        ("XDG_RUNTIME_DIR", "named/containers/auth.json"),
        ("XDG_CONFIG_HOME", "named/containers/auth.json"),
    ],
)
def test_credentials_are_found_where_docker_and_podman_keep_them(
    tmp_path: Path, variable: str | None, place: str
) -> None:
    path = write(tmp_path / place, {"auths": {"registry.example": basic("ann", "p")}})
    value = str(path) if variable == "REGISTRY_AUTH_FILE" else str(tmp_path / "named")
    store = DockerCredentials({variable: value} if variable else {}, tmp_path / "home")
    assert store.find("registry.example", "team/app") == account("ann")
    assert store.find("other.example", "team/app") is None


@pytest.mark.parametrize(
    ("key", "registry"),
    [
        ("registry.example:5000", "registry.example:5000"),
        ("https://registry.example", "registry.example"),
        ("https://registry.example/v1/", "registry.example"),
        ("http://registry.example/v2/", "registry.example"),
        # docker/cli keeps docker.io under the address of its old index
        ("https://index.docker.io/v1/", "docker.io"),
        ("docker.io", "docker.io"),
    ],
)
def test_a_key_names_its_registry_in_all_forms_that_are_in_use(
    tmp_path: Path, key: str, registry: str
) -> None:
    write(tmp_path / ".docker/config.json", {"auths": {key: basic("ann", "p")}})
    assert DockerCredentials({}, tmp_path).find(registry, "team/app") == account("ann")


def test_the_longest_matching_name_space_wins(tmp_path: Path) -> None:
    # containers-auth.json(5): its own example of precedence
    write(
        tmp_path / "auth.json",
        {
            "auths": {
                "registry.example": basic("all", "p"),
                "registry.example/team": basic("team", "p"),
                "registry.example/team/app": basic("app", "p"),
            }
        },
    )
    store = DockerCredentials({"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}, None)
    found = {name: store.find("registry.example", name) for name in ("team/app", "team/x", "y")}
    assert found == {"team/app": account("app"), "team/x": account("team"), "y": account("all")}


def test_a_password_may_hold_colons(tmp_path: Path) -> None:
    write(tmp_path / ".docker/config.json", {"auths": {"r.example": basic("ann", "a:b:c")}})
    assert DockerCredentials({}, tmp_path).find("r.example", "x") == account("ann", "a:b:c")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({**basic("ann", "p"), "identitytoken": "i"}, Credentials(identity_token="i")),
        ({"registrytoken": "r"}, Credentials(registry_token="r")),
        ({"username": "ann", "password": "p"}, account("ann")),
        ({}, None),
    ],
)
def test_each_form_of_an_entry_is_understood(
    tmp_path: Path, entry: dict[str, str], expected: Credentials | None
) -> None:
    write(tmp_path / ".docker/config.json", {"auths": {"r.example": entry}})
    assert DockerCredentials({}, tmp_path).find("r.example", "x") == expected


def test_a_registrys_helper_is_asked_before_the_store_and_the_store_before_the_file(
    tmp_path: Path,
) -> None:
    tools = tmp_path / "bin"
    answer = 'printf \'{"ServerURL":"%s","Username":"%s","Secret":"p"}\''
    helper(tools, "own", f'read -r server; {answer} "$server" "own $server"')
    helper(tools, "all", f'read -r server; {answer} "$server" "all $server"')
    write(
        tmp_path / ".docker/config.json",
        {
            "auths": {"one.example": basic("file", "p"), "two.example": basic("file", "p")},
            "credHelpers": {"one.example": "own"},
            "credsStore": "all",
        },
    )
    store = DockerCredentials({"PATH": f"{tools}:/usr/bin:/bin"}, tmp_path)
    assert store.find("one.example", "x") == account("own one.example")
    assert store.find("two.example", "x") == account("all two.example")
    assert store.find("docker.io", "x") == account("all https://index.docker.io/v1/")


def test_a_helpers_token_is_an_identity_token(tmp_path: Path) -> None:
    # docker-credential-helpers: the user name `<token>` marks it
    helper(tmp_path / "bin", "t", """printf '{"Username":"<token>","Secret":"i"}'""")
    write(tmp_path / ".docker/config.json", {"credsStore": "t"})
    store = DockerCredentials({"PATH": str(tmp_path / "bin")}, tmp_path)
    assert store.find("r.example", "x") == Credentials(identity_token="i")


def test_what_a_helper_does_not_hold_is_looked_up_further(tmp_path: Path) -> None:
    # docker-credential-helpers, credentials/error.go: this text on standard output, exit code 1
    helper(tmp_path / "bin", "h", "echo credentials not found in native keychain; exit 1")
    write(
        tmp_path / ".docker/config.json",
        {"credsStore": "h", "auths": {"r.example": basic("ann", "p")}},
    )
    store = DockerCredentials({"PATH": str(tmp_path / "bin")}, tmp_path)
    assert store.find("r.example", "x") == account("ann")
    assert store.find("s.example", "x") is None


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo locked s3cret; exit 1", "failed with exit code 1"),
        ("echo 's3cret'", "answers in no known form"),
        ("""printf '{"Username":"s3cret"}'""", "answers in no known form"),
    ],
)
def test_a_helper_that_fails_stops_the_work_and_its_output_is_not_shown(
    tmp_path: Path, script: str, message: str
) -> None:
    helper(tmp_path / "bin", "h", script)
    write(tmp_path / ".docker/config.json", {"credsStore": "h"})
    with pytest.raises(FetchError, match=message) as caught:
        DockerCredentials({"PATH": str(tmp_path / "bin")}, tmp_path).find("r.example", "x")
    assert "s3cret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


def test_a_helper_that_is_not_installed_is_named(tmp_path: Path) -> None:
    write(tmp_path / ".docker/config.json", {"credHelpers": {"r.example": "absent"}})
    with pytest.raises(
        FetchError, match=r"`docker-credential-absent` for `r.example` does not run"
    ):
        DockerCredentials({"PATH": str(tmp_path)}, tmp_path).find("r.example", "x")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"auths": {"r.example": {"auth": ["s3cret"]}}}', '{"auths": 1}']
)
def test_a_broken_file_is_an_error_and_not_an_anonymous_user(tmp_path: Path, content: str) -> None:
    path = tmp_path / ".docker" / "config.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(FetchError, match=f"`{path}` is not a docker or podman") as caught:
        DockerCredentials({}, tmp_path).find("r.example", "x")
    assert "s3cret" not in str(caught.value)


def test_an_unreadable_entry_is_an_error_without_its_value(tmp_path: Path) -> None:
    write(tmp_path / ".docker/config.json", {"auths": {"r.example": {"auth": "s3cret!!"}}})
    with pytest.raises(FetchError, match=r"unreadable `auth` for `r.example`") as caught:
        DockerCredentials({}, tmp_path).find("r.example", "x")
    assert "s3cret" not in str(caught.value)


def test_a_helper_name_with_a_path_is_not_run(tmp_path: Path) -> None:
    write(tmp_path / ".docker/config.json", {"credsStore": "../../evil"})
    with pytest.raises(FetchError, match="not the name of a credential helper"):
        DockerCredentials({"PATH": "/bin"}, tmp_path).find("r.example", "x")
