from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import FetchError
from imagegate.sources.registry.authorization import Challenge, parse_challenges
from imagegate.sources.registry.credentials import Credentials
from tests.registry import Accounts, LoopbackRegistry
from tests.registry_source.support import (
    Keyring,
    ManualClock,
    client,
    digest,
    layer_bytes,
    sink,
    source,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import BuiltImage

PASSWORD = "s3cret-password"
ANN = Credentials(username="ann", password=PASSWORD)


@pytest.fixture
def guarded(registry: LoopbackRegistry, image: BuiltImage) -> LoopbackRegistry:
    registry.accounts = Accounts(users={"ann": PASSWORD}, identity_tokens={"refresh-me"})
    registry.add("team/app", image)
    return registry


def pinned(registry: LoopbackRegistry, image: BuiltImage) -> str:
    return f"{registry.netloc}/team/app@{image.digest}"


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_an_account_reads_and_writes(
    guarded: LoopbackRegistry, image: BuiltImage, scheme: str
) -> None:
    assert guarded.accounts is not None
    guarded.accounts.scheme = scheme
    through = client(guarded, credentials=Keyring(ANN))
    assert str(source(through, pinned(guarded, image)).image.digest) == image.digest
    blob = b"pushed"
    pushed = sink(through).push_blob(
        digest=digest(blob), size=len(blob), open_stream=lambda: open_bytes(blob)
    )
    assert pushed == "uploaded"


def test_a_token_is_asked_for_once_for_each_set_of_scopes(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    through = client(guarded, credentials=Keyring(ANN))
    found = source(through, pinned(guarded, image))
    for layer in found.image.layers:
        layer_bytes(found, layer)
    assert guarded.requests["token.get"] == 1
    sink(through, "team/other").has_blob(digest(b""))
    assert guarded.requests["token.get"] == 2
    asked = [one.path for one in guarded.seen if one.route == "token.get"]
    # distribution, token.md: service and scope come from the challenge and the request
    assert "service=loopback+registry" in asked[0]
    assert "scope=repository%3Ateam%2Fapp%3Apull" in asked[0]


def test_a_mount_asks_to_push_here_and_to_pull_there(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    through = client(guarded, credentials=Keyring(ANN))
    blob = image.layers[0]
    pushed = sink(through, "team/new").push_blob(
        digest=digest(blob),
        size=len(blob),
        open_stream=lambda: pytest.fail("nothing is to be sent"),
        mount_from=["team/app"],
    )
    assert pushed == "mounted"
    assert any(
        "team%2Fnew%3Apull%2Cpush" in one.path and "team%2Fapp%3Apull" in one.path
        for one in guarded.seen
        if one.route == "token.get"
    )


def test_where_the_source_may_not_be_read_the_blob_is_sent(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    assert guarded.accounts is not None
    guarded.accounts.private.add("team/app")
    blob = image.layers[0]
    pushed = sink(client(guarded, credentials=Keyring(ANN)), "team/new").push_blob(
        digest=digest(blob),
        size=len(blob),
        open_stream=lambda: open_bytes(blob),
        mount_from=["team/app"],
    )
    assert pushed == "uploaded"


def test_tokens_that_expire_in_the_middle_are_renewed(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    assert guarded.accounts is not None
    guarded.accounts.token_uses = 2
    through = client(guarded, credentials=Keyring(ANN))
    found = source(through, pinned(guarded, image))
    assert [layer_bytes(found, layer) for layer in found.image.layers] == list(image.layers)
    blob = bytes(10_000)
    sink(through).push_blob(
        digest=digest(blob), size=len(blob), open_stream=lambda: open_bytes(blob)
    )
    assert guarded.blobs["team/app"][str(digest(blob))] == blob
    assert guarded.requests["token.get"] > 5


def test_a_token_that_expires_between_two_halves_of_a_blob_is_renewed(
    guarded: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    through = client(guarded, clock, credentials=Keyring(ANN))
    found = source(through, pinned(guarded, image))
    guarded.lies.cut_after = [50]
    stream = found.open_layer(found.image.layers[0])
    guarded.tokens.clear()
    assert stream.read() == image.layers[0]
    stream.close()


def test_public_images_need_no_account_behind_a_token_service(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    assert guarded.accounts is not None
    guarded.accounts.anonymous_pull = True
    assert str(source(client(guarded), pinned(guarded, image)).image.digest) == image.digest
    with pytest.raises(FetchError, match="asks for credentials"):
        sink(client(guarded)).push_blob(
            digest=digest(b"x"), size=1, open_stream=lambda: open_bytes(b"x")
        )


def test_an_identity_token_is_exchanged_by_post(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    keyring = Keyring(Credentials(identity_token="refresh-me"))
    assert (
        str(source(client(guarded, credentials=keyring), pinned(guarded, image)).image.digest)
        == image.digest
    )
    assert guarded.requests["token.post"] == 1
    assert not any("refresh-me" in one.path for one in guarded.seen)


def test_a_registry_token_is_sent_as_it_is(guarded: LoopbackRegistry, image: BuiltImage) -> None:
    token = guarded.grant(["repository:team/app:pull"], known=True)
    keyring = Keyring(Credentials(registry_token=token))
    assert (
        str(source(client(guarded, credentials=keyring), pinned(guarded, image)).image.digest)
        == image.digest
    )


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        (None, r"asks for credentials for `team/app`, and none are stored"),
        (Credentials(username="ann", password="wr0ng-password"), r"refuses the stored credentials"),
        (Credentials(identity_token="wr0ng-token"), r"refuses the stored credentials"),
        (Credentials(registry_token="wr0ng-bearer"), r"refuses the stored credentials"),
    ],
)
def test_missing_and_wrong_credentials_are_told_apart_at_once_and_never_shown(
    guarded: LoopbackRegistry,
    image: BuiltImage,
    clock: ManualClock,
    scheme: str,
    credentials: Credentials | None,
    message: str,
) -> None:
    assert guarded.accounts is not None
    guarded.accounts.scheme = scheme
    keyring = Keyring(credentials) if credentials else None
    with pytest.raises(FetchError, match=message) as caught:
        source(client(guarded, clock, credentials=keyring), pinned(guarded, image))
    assert clock.slept == []
    assert f"docker login {guarded.netloc}" in str(caught.value.hint)
    for secret in ("wr0ng", "ann", base64.b64encode(b"ann:wr0ng-password").decode()):
        assert secret not in f"{caught.value.message} {caught.value.hint}"
    assert "wr0ng" not in repr(credentials)


def test_the_token_services_failures_are_waited_for(
    guarded: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    guarded.fail("token.get", 429, Retry_After="3")
    guarded.fail("token.get", 503)
    source(client(guarded, clock, credentials=Keyring(ANN)), pinned(guarded, image))
    assert clock.slept == [3.0, 1.0]


def test_a_token_service_without_a_token_is_reported(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    guarded.fail("token.get", 200, body=b'{"token": ""}')
    with pytest.raises(FetchError, match="without a token"):
        source(client(guarded, credentials=Keyring(ANN)), pinned(guarded, image))


def test_a_password_is_not_sent_to_a_token_service_in_the_clear(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    guarded.fail(
        "ping.get", 401, WWW_Authenticate='Bearer realm="http://tokens.example/t",service="s"'
    )
    with pytest.raises(FetchError, match=r"`http://tokens\.example/t` speaks plain HTTP"):
        source(client(guarded, credentials=Keyring(ANN)), pinned(guarded, image))


def test_a_netrc_does_not_replace_what_the_registry_is_to_see(
    guarded: LoopbackRegistry, image: BuiltImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # requests would send the netrc's account instead of the token, and get 401
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password netrc-password\n")
    monkeypatch.setenv("NETRC", str(netrc))
    found = source(client(guarded, credentials=Keyring(ANN)), pinned(guarded, image))
    assert str(found.image.digest) == image.digest
    sent = [base64.b64encode(b"other:netrc-password").decode()]
    assert not any(secret in (one.authorization or "") for one in guarded.seen for secret in sent)


def test_credentials_in_an_address_are_neither_used_nor_shown(
    guarded: LoopbackRegistry, image: BuiltImage
) -> None:
    guarded.fail("manifest.get", 307, Location="http://eve:leaked@storage.example/manifest")
    with pytest.raises(FetchError) as caught:
        source(client(guarded, credentials=Keyring(ANN)), pinned(guarded, image))
    assert "leaked" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_a_registry_that_repeats_what_it_was_sent_is_quoted_without_it(
    guarded: LoopbackRegistry, image: BuiltImage, scheme: str
) -> None:
    assert guarded.accounts is not None
    guarded.accounts.scheme = scheme
    basic = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
    said = f"no {basic} {PASSWORD} token-1"
    body = json.dumps({"errors": [{"code": "DENIED", "message": said}]}).encode()
    guarded.fail("manifest.get", 403, body=body)
    with pytest.raises(FetchError, match=r"answers 403 to GET \(DENIED: no ") as caught:
        source(client(guarded, credentials=Keyring(ANN)), pinned(guarded, image))
    sent = [basic, PASSWORD] if scheme == "basic" else ["token-1"]
    assert not any(secret in str(caught.value) for secret in sent)


@pytest.mark.parametrize(
    ("header", "challenges"),
    [
        # RFC 9110, 11.6.1: the example of a list with two challenges
        (
            'Basic realm="simple", Newauth realm="apps", type=1, title="Login to \\"apps\\""',
            [
                Challenge("basic", {"realm": "simple"}),
                Challenge("newauth", {"realm": "apps", "type": "1", "title": 'Login to "apps"'}),
            ],
        ),
        # distribution, docs/spec/auth/token.md
        (
            (
                'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",'
                'scope="repository:samalba/my-app:pull,push"'
            ),
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://auth.docker.io/token",
                        "service": "registry.docker.io",
                        "scope": "repository:samalba/my-app:pull,push",
                    },
                )
            ],
        ),
        (
            "Negotiate, Basic realm=x",
            [Challenge("negotiate", {}), Challenge("basic", {"realm": "x"})],
        ),
        ("Negotiate YWJj==, Basic", [Challenge("negotiate", {}), Challenge("basic", {})]),
        ("", []),
    ],
)
def test_challenges_are_read_as_rfc_9110_writes_them(
    header: str, challenges: list[Challenge]
) -> None:
    assert parse_challenges(header) == challenges


def open_bytes(content: bytes) -> io.BytesIO:
    return io.BytesIO(content)
