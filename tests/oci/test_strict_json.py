"""One reading of JSON: what RFC 7493 (I-JSON) leaves out is refused, and so is what is too much."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from imagegate.errors import FetchError, ImageError
from imagegate.oci.documents import ImageConfig, parse_document
from imagegate.oci.strictjson import read_json, read_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_what_json_can_say_is_read_as_it_is(value: object) -> None:
    try:
        content = json.dumps(value).encode()
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert read_json(content, "it") == value


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1, "a": 1}',
        b'[{"x": {"a": 1, "b": 2, "a": 3}}]',
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"1e999",
        b"9223372036854775808",
        b"1" * 5000,
        b'"\\ud800"',
        b'{"\\udc00": 1}',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b"{}\0",
        b"",
        b"'a'",
        b'{"a": 1,}',
        b"[" * 101 + b"]" * 101,
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'"' + b'\\"' * 500_000,
    ],
    ids=lambda content: repr(content[:24]),
)
def test_what_readers_take_differently_is_refused(content: bytes) -> None:
    with pytest.raises(ImageError, match=r"^it is not valid JSON"):
        read_json(content, "it")


def test_brackets_in_a_text_are_no_levels() -> None:
    assert read_json(b'["' + b"[" * 1000 + b'", "\\"[["]', "it") == ["[" * 1000, '"[[']


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert read_json(rb'"\ud83d\ude00"', "it") == "\U0001f600"


def test_size_and_form_are_the_callers() -> None:
    with pytest.raises(FetchError, match="at most 3"):
        read_json(b'"abc"', "it", limit=3, error=FetchError)
    with pytest.raises(FetchError, match="not a JSON object"):
        read_object(b"[]", "it", error=FetchError)


@pytest.mark.parametrize(
    "config",
    [
        {"Healthcheck": {}, "healthcheck": {"Test": ["NONE"]}},
        {"exposedports": {}},
        {"VOLUMES": {}},
        {"\u017ftopSignal": "9"},
        {"ENV": []},
    ],
)
def test_every_field_of_a_config_has_its_one_spelling(config: dict[str, object]) -> None:
    document = {
        "os": "linux",
        "architecture": "arm64",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": []},
    }
    with pytest.raises(ImageError, match="readers take it differently"):
        parse_document(ImageConfig, json.dumps(document).encode(), "the config")


def test_labels_are_names_of_their_own() -> None:
    document = {
        "os": "linux",
        "architecture": "arm64",
        "config": {"Labels": {"a": "1", "A": "2"}},
        "rootfs": {"type": "layers", "diff_ids": []},
    }
    parse_document(ImageConfig, json.dumps(document).encode(), "the config")
