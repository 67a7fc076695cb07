from __future__ import annotations

import email.utils
import socket

import pytest

from imagegate.errors import DigestMismatch, FetchError
from imagegate.oci.layer import read_layer
from imagegate.sources.registry import Credentials
from tests.images import BuiltImage, ImageBuilder, tar
from tests.registry import FOREVER, Accounts, BlobHost, LoopbackRegistry
from tests.registry_source.support import (
    Keyring,
    ManualClock,
    client,
    layer_bytes,
    noise,
    source,
)


@pytest.fixture
def large() -> BuiltImage:
    return ImageBuilder(compression="plain").layer({"noise": noise(3_000_000)}).build()


def test_two_cut_connections_are_resumed_where_they_broke_and_no_byte_moves_twice(
    registry: LoopbackRegistry, large: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", large))
    layer = found.image.layers[0]
    registry.lies.cut_after = [1_000_000, 700_001]
    assert read_layer(found.open_layer(layer), layer.blob).compressed == len(large.layers[0])
    asked = [
        one.headers.get("range") for one in registry.seen if str(layer.blob.digest) in one.path
    ]
    assert asked == [None, "bytes=1000000-", "bytes=1700001-"]
    assert registry.served[str(layer.blob.digest)] == len(large.layers[0])


def test_a_server_without_ranges_is_read_again_from_its_start(
    registry: LoopbackRegistry, large: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", large))
    registry.lies.ranges = False
    registry.lies.cut_after = [1_000_000, 2_000_000]
    assert layer_bytes(found, found.image.layers[0]) == large.layers[0]
    assert registry.served[str(found.image.layers[0].blob.digest)] == 3_000_000 + len(
        large.layers[0]
    )


def test_a_blob_that_changes_between_two_connections_is_refused(
    registry: LoopbackRegistry, large: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", large))
    layer = found.image.layers[0]
    registry.lies.cut_after = [1_000_000]
    stream = found.open_layer(layer)
    registry.lies.blobs[str(layer.blob.digest)] = tar({"noise": noise(3_000_000, seed=2)})
    with pytest.raises(DigestMismatch):
        read_layer(stream, layer.blob)


def test_connections_that_bring_nothing_new_are_given_up(
    registry: LoopbackRegistry, large: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", large))
    registry.lies.ranges = False
    registry.lies.cut_after = [1000] * 20
    with pytest.raises(FetchError, match=r"expected=\d+ bytes received=1000 \(5 attempts\)"):
        layer_bytes(found, found.image.layers[0])
    assert clock.slept == [0.5, 1.0, 2.0, 4.0]


def test_another_range_than_asked_for_is_refused(
    registry: LoopbackRegistry, large: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", large))
    registry.lies.wrong_range = True
    registry.lies.cut_after = [1000]
    with pytest.raises(FetchError, match="asked=1000 answered=`bytes 1001-"):
        layer_bytes(found, found.image.layers[0])


def test_the_wait_that_a_registry_asks_for_is_kept(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    registry.fail("manifest.get", 429, times=2, Retry_After="7")
    source(client(registry, clock), registry.add("team/app", image))
    assert clock.slept == [7.0, 7.0]


def test_a_wait_until_a_date_is_kept(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    date = email.utils.formatdate(clock.time + 20, usegmt=True)
    registry.fail("manifest.get", 503, Retry_After=date)
    source(client(registry, clock), registry.add("team/app", image))
    assert clock.slept == [20.0]


def test_a_wait_beyond_patience_is_reported_instead(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    registry.fail("manifest.get", 429, times=FOREVER, Retry_After="3600")
    with pytest.raises(FetchError, match="answers 429 to GET; it asks to wait 3600 s"):
        source(client(registry, clock), registry.add("team/app", image))
    assert clock.slept == []


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
@pytest.mark.parametrize("route", ["manifest.get", "blob.get"])
def test_a_failure_that_passes_is_waited_for(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock, status: int, route: str
) -> None:
    registry.fail(route, status, times=3)
    found = source(client(registry, clock), registry.add("team/app", image))
    assert str(found.image.digest) == image.digest
    assert clock.slept == [0.5, 1.0, 2.0]


def test_a_failure_that_stays_is_reported_with_the_registrys_words(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    body = b'{"errors":[{"code":"UNKNOWN","message":"disk\\nfailure"}]}'
    registry.fail("manifest.get", 500, times=FOREVER, body=body)
    with pytest.raises(
        FetchError, match=r"answers 500 to GET \(UNKNOWN: disk failure\) \(5 attempts\)"
    ) as caught:
        source(client(registry, clock), registry.add("team/app", image))
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_a_status_that_will_not_change_is_not_tried_again(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    registry.fail("manifest.get", 403, times=FOREVER)
    with pytest.raises(FetchError, match="answers 403"):
        source(client(registry, clock), registry.add("team/app", image))
    assert registry.requests["manifest.get"] == 1


def test_a_lost_answer_is_asked_for_again(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    registry.lies.drop_answer = ["manifest.get"]
    found = source(client(registry, clock), registry.add("team/app", image))
    assert str(found.image.digest) == image.digest


def test_nobody_at_the_address_is_said_with_the_systems_reason(clock: ManualClock) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        name = f"127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(
            FetchError, match=rf"cannot reach `http://{name}/v2/`.*connection refused"
        ):
            source(client(name, clock), f"{name}/team/app:v1")


def test_a_web_site_is_not_taken_for_a_registry(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    reference = registry.add("team/app", image)
    page = b"<html>welcome</html>"
    registry.fail("manifest.get", 200, body=page, Content_Type="text/html")
    with pytest.raises(DigestMismatch):
        source(client(registry), reference)


def test_a_redirect_to_another_host_takes_no_credentials_along(
    registry: LoopbackRegistry, large: BuiltImage, clock: ManualClock
) -> None:
    registry.accounts = Accounts(users={"ann": "secret"})
    keyring = Keyring(Credentials(username="ann", password="secret"))
    reference = registry.add("team/app", large)
    with BlobHost(registry).running() as host:
        registry.lies.redirect_blobs = host.root
        registry.lies.cut_after = [FOREVER, 1_000_000]
        found = source(client(registry, clock, credentials=keyring), reference)
        assert layer_bytes(found, found.image.layers[0]) == large.layers[0]
        assert host.authorized == 0
        assert host.answered == 3


def test_a_redirect_in_a_circle_ends(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    registry.lies.redirect_circle = True
    with pytest.raises(FetchError, match="answers 307"):
        source(client(registry, clock), registry.add("team/app", image))
    assert registry.requests["blob.get"] == 5


def test_a_redirect_into_plain_http_is_refused_and_its_signature_not_shown(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    registry.lies.redirect_blobs = "http://storage.example"
    with pytest.raises(FetchError, match=r"`http://storage\.example/.*plain HTTP") as caught:
        source(client(registry, clock), registry.add("team/app", image))
    assert "SECRETSIGNATURE" not in str(caught.value)
    assert "--insecure" in str(caught.value.hint)
