from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import FetchError
from imagegate.sources.registry.wire import is_loopback
from tests.registry import LoopbackRegistry
from tests.registry_source.certificates import make_certificate
from tests.registry_source.support import client, source

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import BuiltImage


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        # docker's defaults for insecure registries: localhost, 127.0.0.0/8 and ::1
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.8.9.10", True),
        ("[::1]:5000", True),
        ("[::1]", True),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("10.0.0.1:5000", False),
        ("registry.example", False),
    ],
)
def test_plain_http_is_for_hosts_that_docker_allows_it_for(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_another_host_is_spoken_to_in_https_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # no proxy answers on that port, so that no name is looked up and nothing leaves the machine
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(FetchError, match=r"cannot reach `https://registry\.example/v2/`.*proxy"):
        source(client("registry.example"), "registry.example/team/app:v1")


def test_a_proxy_of_the_environment_is_used_for_others_and_not_for_loopback(
    registry: LoopbackRegistry, image: BuiltImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert source(client(registry), registry.add("team/app", image)).image.digest is not None


def test_insecure_allows_plain_http_to_others_through_the_proxy_too(
    registry: LoopbackRegistry, image: BuiltImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the loopback registry plays the proxy: it is asked for the other host's whole address
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://{registry.netloc}")
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    registry.add("team/app", image, "v1")
    through = client("registry.example", insecure=True)
    assert str(source(through, "registry.example/team/app:v1").image.digest) == image.digest


def test_docker_hub_is_served_by_another_host_than_its_name_says(
    registry: LoopbackRegistry, image: BuiltImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # moby, registry/config.go: DefaultV2Registry is registry-1.docker.io
    monkeypatch.setenv("http_proxy", f"http://{registry.netloc}")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    registry.add("library/busybox", image, "latest")
    found = source(client("docker.io", insecure=True), "busybox")
    assert str(found.image.digest) == image.digest
    hosts = {one.headers["host"] for one in registry.seen}
    assert hosts == {"registry-1.docker.io"}


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    path, secret = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, secret)
    return path, context


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_the_environments_ca_bundle_is_trusted(
    certificate: tuple[Path, ssl.SSLContext],
    image: BuiltImage,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    path, context = certificate
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(path))
    with LoopbackRegistry(tls=context).running() as registry:
        through = client(registry, environment={variable: str(path)})
        found = source(through, registry.add("team/app", image))
        assert str(found.image.digest) == image.digest


def test_an_unknown_certificate_is_refused_at_once_with_what_to_do(
    certificate: tuple[Path, ssl.SSLContext], image: BuiltImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, context = certificate
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with LoopbackRegistry(tls=context).running() as registry:
        reference = registry.add("team/app", image)
        with pytest.raises(FetchError, match="its certificate is not trusted") as caught:
            source(client(registry), reference)
    assert "REQUESTS_CA_BUNDLE" in str(caught.value.hint)


def test_a_bundle_that_does_not_hold_the_authority_is_named_with_its_variable(
    certificate: tuple[Path, ssl.SSLContext], image: BuiltImage, tmp_path: Path
) -> None:
    """Of several variables the first counts (requests' own order): the others change nothing."""
    path, context = certificate
    (tmp_path / "other").mkdir()
    other, _ = make_certificate(tmp_path / "other")
    environment = {"REQUESTS_CA_BUNDLE": str(other), "SSL_CERT_FILE": str(path)}
    with LoopbackRegistry(tls=context).running() as registry:
        reference = registry.add("team/app", image)
        with pytest.raises(FetchError, match="its certificate is not trusted") as caught:
            source(client(registry, environment=environment), reference)
    assert f"`{other}`, which `REQUESTS_CA_BUNDLE` names" in str(caught.value.hint)


def test_a_ca_bundle_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(FetchError, match=f"CA bundle `{missing}`"):
        client("registry.example", environment={"SSL_CERT_FILE": missing})
