"""What can be moved out of an event's JSON, and that what is put back is the very text."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.tables.inline import InlineTexts, decoded, encoded

texts = st.one_of(
    st.binary(max_size=40).map(lambda body: base64.b64encode(body).decode()),
    st.binary(max_size=40).map(lambda body: base64.urlsafe_b64encode(body).decode()),
    st.text(max_size=20),
    st.sampled_from(["", "=", "AA==", "AB==", "A", "QUJD\n", "-_-_", "+/+/", "+/-_", '"data":"']),
)
names = st.sampled_from(
    ["data", "inlineData", "inline_data", "a/b", "~", "x", 'q"data', "mimeType"]
)
values = st.recursive(
    st.one_of(texts, st.integers(), st.none(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names, inner, max_size=4),
        st.fixed_dictionaries({"inlineData": st.dictionaries(names, inner, max_size=3)}),
    ),
    max_leaves=12,
)


def at(value: Any, path: str) -> Any:
    """Return what a JSON pointer leads to."""
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


@given(values, st.booleans(), st.booleans())
def test_what_is_cut_out_and_put_back_is_the_text_that_was_there(
    value: Any, ascii_only: bool, spaced: bool
) -> None:
    """Whatever else the JSON holds, and however it is written, not a byte of it changes."""
    separators = None if spaced else (",", ":")
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
    places = InlineTexts(text)
    found = {one.path: one.text for one in places}

    cut = places.with_texts(dict.fromkeys(found, ""))
    assert all(at(json.loads(cut), path) == "" for path in found)
    assert InlineTexts(cut).with_texts(found) == text


@given(values)
def test_each_text_that_needs_no_escapes_is_found_where_it_stands(value: Any) -> None:
    """Under `data` of an object under `inlineData` or `inline_data`, at any depth."""
    expected: dict[str, str] = {}

    def look(value: Any, path: str, is_held: bool) -> None:
        if isinstance(value, dict):
            if is_held and isinstance(value.get("data"), str):
                expected[f"{path}/data"] = value["data"]
            for name, each in value.items():
                step = name.replace("~", "~0").replace("/", "~1")
                look(each, f"{path}/{step}", name in ("inlineData", "inline_data"))
        elif isinstance(value, list):
            for place, each in enumerate(value):
                look(each, f"{path}/{place}", False)

    look(value, "", False)
    plain = {path: each for path, each in expected.items() if "\\" not in json.dumps(each)}
    found = InlineTexts(json.dumps(value, ensure_ascii=False))
    assert {one.path: one.text for one in found} == plain


def test_a_text_cannot_pass_for_a_place() -> None:
    """What looks like JSON inside of a text is a text."""
    inner = json.dumps({"inlineData": {"data": "QUJD"}})
    value = {"text": inner, "inlineData": {"data": "QUJD", "mimeType": "a/b"}}
    (one,) = InlineTexts(json.dumps(value))
    assert (one.path, one.mime_type) == ("/inlineData/data", "a/b")


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("QUJD", b"ABC"),
        ("QUI=", b"AB"),
        ("-_-_", b"\xfb\xff\xbf"),
        ("+/+/", b"\xfb\xff\xbf"),
        ("", None),
        ("QUI", None),
        ("QUJ=", None),
        ("+/-_", None),
        ("QUJD\n", None),
        ("QUJDé", None),
    ],
    ids=repr,
)
def test_only_what_is_encoded_back_to_the_same_text_is_bytes(text: str, body: bytes | None) -> None:
    """Without padding, with bits beside, with both alphabets or blanks: the text stays."""
    found = decoded(text, 0)
    assert (found and found[0]) == body
    assert found is None or encoded(*found) == text


def test_the_threshold_is_exclusive() -> None:
    """Exactly as many bytes stay."""
    text = base64.b64encode(b"12345").decode()
    assert decoded(text, 5) is None
    assert decoded(text, 4) == (b"12345", "base64")
