"""Digests, references and platforms follow their grammars."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, strategies as st

from imagegate.errors import ImageError, UsageError
from imagegate.oci.digest import Digest
from imagegate.oci.platform import Platform
from imagegate.oci.reference import Reference

HEX = "0123456789abcdef" * 4
ONE = f"sha256:{HEX}"

# --- digests


@pytest.mark.parametrize(("algorithm", "length"), [("sha256", 64), ("sha384", 96), ("sha512", 128)])
def test_moby_48241_every_registered_algorithm_is_read(algorithm: str, length: int) -> None:
    text = f"{algorithm}:{'ab' * (length // 2)}"
    assert str(Digest.parse(text)) == text
    assert Digest.of(b"x", algorithm).encoded == hashlib.new(algorithm, b"x").hexdigest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256",
        "sha256:",
        HEX,
        f"sha256:{HEX[:-1]}",
        f"sha256:{HEX}0",
        f"sha256:{HEX.upper()}",  # descriptor.md: the encoded portion MUST match [a-f0-9]{64}
        f"SHA256:{HEX}",
        f"sha256:{HEX}\n",
        f" sha256:{HEX}",
        f"sha256:{HEX[:-1]}\u0661",  # an Arabic-Indic digit
        "sha512:" + HEX,
        "../../../etc/passwd",
        f"sha256:../{HEX[:61]}",
    ],
)
def test_what_is_no_digest_is_an_error(text: str) -> None:
    with pytest.raises(ImageError):
        Digest.parse(text)


def test_moby_48241_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(ImageError, match="algorithm `blake3`") as caught:
        Digest.parse("blake3:" + HEX)
    assert "sha256" in (caught.value.hint or "")


@given(st.text())
def test_any_text_is_a_digest_or_an_error(text: str) -> None:
    try:
        assert str(Digest.parse(text)) == text
    except ImageError:
        assert text != ONE


# --- references: the table of github.com/distribution/reference and Docker's short names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ubuntu", ("docker.io", "library/ubuntu", None)),
        ("docker.io/ubuntu", ("docker.io", "library/ubuntu", None)),
        ("index.docker.io/library/ubuntu", ("docker.io", "library/ubuntu", None)),
        ("nvidia/cuda:13.0", ("docker.io", "nvidia/cuda", "13.0")),
        ("localhost/x", ("localhost", "x", None)),
        ("localhost:5000/x:y", ("localhost:5000", "x", "y")),
        ("registry.example/a/b/c", ("registry.example", "a/b/c", None)),
        ("registry.example:443/a--b/c__d.e_f", ("registry.example:443", "a--b/c__d.e_f", None)),
        ("[2001:db8::1]:5000/x", ("[2001:db8::1]:5000", "x", None)),
        ("Foo/bar", ("Foo", "bar", None)),
    ],
)
def test_references_are_read_as_docker_reads_them(
    text: str, expected: tuple[str, str, str | None]
) -> None:
    found = Reference.parse(text)
    assert (found.registry, found.repository, found.tag) == expected


@pytest.mark.parametrize(
    "number", ["tagfish#14", "rules_docker#714", "renovate#9786", "renovate#15134"]
)
def test_tagfish_14_where_tag_and_digest_stand_the_digest_is_kept_beside_the_tag(
    number: str,
) -> None:
    del number  # one rule, four reports
    found = Reference.parse(f"registry.example/x:1.1@{ONE}")
    assert (found.tag, str(found.digest)) == ("1.1", ONE)
    assert str(found) == f"registry.example/x:1.1@{ONE}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":tag",
        "@" + ONE,
        "x@",
        "x@sha256:abc",
        f"x@{ONE}@{ONE}",
        "x:",
        "x:-tag",
        "x:" + "t" * 129,
        "registry.example/",
        "registry.example/UPPER",
        "registry.example/a//b",
        "registry.example/a/../b",
        "-x.example/a",
        "https://registry.example/a",
        "a" * 256,
        "a" * 100_000 + "!",
        HEX,  # an image id
        "x y",
        "x\n",
    ],
)
def test_what_is_no_reference_is_the_callers_mistake(text: str) -> None:
    with pytest.raises(UsageError):
        Reference.parse(text)


def test_a_pinned_reference_names_a_digest() -> None:
    assert Reference.parse_pinned(f"x@{ONE}").digest == Digest.parse(ONE)
    with pytest.raises(UsageError, match="names no digest"):
        Reference.parse_pinned("registry.example/x:latest")


@given(
    st.one_of(
        st.text(),
        st.from_regex(
            r"[a-zA-Z0-9.:\[\]-]{1,12}/[a-z0-9._/-]{1,12}(:[\w.-]{1,9})?", fullmatch=True
        ),
    )
)
def test_a_reference_that_was_read_reads_the_same_again(text: str) -> None:
    try:
        found = Reference.parse(text)
    except UsageError:
        return
    assert Reference.parse(str(found)) == found


# --- platforms


@pytest.mark.parametrize("number", ["image#898", "argocd-image-updater#711", "oras-go#993"])
def test_image_898_arm64_is_arm64_v8(number: str) -> None:
    del number  # one rule, three reports
    arm = Platform.parse("linux/arm64")
    assert Platform.parse("linux/arm64/v8") == Platform.of("linux", "aarch64") == arm
    assert Platform.of("Linux", "ARM64", "8") == arm
    assert str(arm) == "linux/arm64"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # containerd/platforms, database.go, normalizeArch
        ("linux/amd64", "linux/x86_64"),
        ("linux/amd64", "linux/amd64/v1"),
        ("linux/arm", "linux/arm/v7"),
        ("linux/arm", "linux/armhf"),
        ("linux/arm/v6", "linux/armel"),
        ("linux/386", "linux/i386"),
    ],
)
def test_platforms_are_equal_in_normal_form(one: str, other: str) -> None:
    assert Platform.parse(one) == Platform.parse(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("linux/arm64", "linux/arm64/v9"),
        ("linux/arm64", "linux/arm"),
        ("linux/amd64", "linux/amd64/v3"),
        ("linux/amd64", "windows/amd64"),
        ("linux/arm/v6", "linux/arm/v7"),
    ],
)
def test_other_platforms_are_other(one: str, other: str) -> None:
    assert Platform.parse(one) != Platform.parse(other)


@pytest.mark.parametrize("text", ["", "linux", "linux/", "linux/a/b/c", "linux/arm 64", "/arm64"])
def test_what_is_no_platform_is_the_callers_mistake(text: str) -> None:
    with pytest.raises(UsageError):
        Platform.parse(text)


@given(st.text())
def test_any_text_is_a_platform_in_normal_form_or_an_error(text: str) -> None:
    try:
        found = Platform.parse(text)
    except UsageError:
        return
    assert Platform.parse(str(found)) == found
