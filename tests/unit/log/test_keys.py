"""Keys: what ids become, and which names are ours."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakestore.errors import InputError
from lakestore.log.ids import check_id, decode_id, encode_id
from lakestore.log.keys import (
    NONE,
    Scope,
    SessionKey,
    app_entries,
    app_logs,
    commit_key,
    entry_key,
    is_log_folder,
    parse_entry_name,
    parse_log_name,
    rollup_key,
    user_logs,
)
from lakestore.log.stamps import stamp_text

_ARABIC_ZERO = "\u0660"
IDS = st.text(min_size=1, max_size=200)
# R001, R028, R029, R034, R035, R037, R080, R113: what people really called their users.
REPORTED = [
    *["u1", "u[1]", "u*", "u?", "007", "7", "2024-01-05", "NULL", "null", "true", "1e5"],
    *["__HIVE_DEFAULT_PARTITION__", "a/b", "a b", "a+b", "100%", "a%2Fb", "a%2fb", "x=y"],
    *["mail+tag@corp.test", "émile", "日本", "../../etc", "..", ".", "//events.test/topics/t"],
    *["projects/demo-1/subscriptions/orders", "a\x00b", "C:\\x", "CON", "con", "nul.txt"],
    *["~", "~root", ".hidden", "dot.", " lead", "trail ", "_svc", "-", "--", "-rf", "a::b"],
    *["o'brien", 'x"y', "x'); drop view events; --", "Ana", "ana", "ANA", "user", "a~b", "\n"],
    *["e\u0301", "é", "\u202egnp", "😀", "a" * 300, "é" * 200, "A" * 300, "a" * 120, "a" * 121],
]


def example_of_each(test: Any) -> Any:
    """Try what was reported before anything else."""
    for text in REPORTED:
        test = example(text)(test)
    return test


@example_of_each
@given(IDS)
def test_an_id_comes_back(text: str) -> None:
    """An id is read from its part of the key, or the part says that only a digest is left."""
    part = encode_id(text)

    assert decode_id(part) == (None if "~" in part else text)
    assert ("~" in part) == (len(part.partition("~")[2]) == 32)
    if "~" not in part:
        assert unquote(part, errors="strict") == text


@example_of_each
@given(IDS)
def test_a_part_is_a_plain_name_everywhere(text: str) -> None:
    """No system, shell, glob or SQL engine reads anything into a part of a key."""
    part = encode_id(text)

    assert re.fullmatch(r"[a-z0-9_.%~-]{1,120}", part)
    assert part[0] not in "-_.~"
    assert part[-1] not in ". "
    assert part == part.lower()
    assert part != NONE
    assert re.fullmatch(r"(?:%[0-9a-f]{2}|[^%])*", part), "half of an escape"


@given(st.lists(IDS | st.sampled_from(REPORTED), min_size=2, unique=True))
def test_two_ids_never_share_a_part(texts: list[str]) -> None:
    """Different ids have different parts, also on disks that ignore case."""
    assert len({encode_id(text).casefold() for text in texts}) == len(texts)


def test_reported_ids_stay_apart() -> None:
    """No two ids of the reports meet in one folder."""
    parts = {encode_id(text).casefold(): text for text in REPORTED}

    assert sorted(parts.values()) == sorted(REPORTED)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ana", "ana"),
        ("a-b_c.d", "a-b_c.d"),
        ("Ana", "%41na"),
        ("a/b", "a%2fb"),
        ("100%", "100%25"),
        ("~", "%7e"),
        ("-", "%2d"),
        ("_svc", "%5fsvc"),
        (".", "%2e"),
        ("..", "%2e%2e"),
        ("dot.", "dot%2e"),
        (" ", "%20"),
        ("é", "%c3%a9"),
        ("x=y", "x%3dy"),
        ("a" * 120, "a" * 120),
    ],
)
def test_parts_are_spelled_so_for_ever(text: str, part: str) -> None:
    """Lakes that exist depend on this spelling."""
    assert encode_id(text) == part


def test_a_long_id_is_shortened_so_for_ever() -> None:
    """More than 120 letters become 80 of them and the half of a SHA-256 digest."""
    digest = hashlib.sha256(b"a" * 121).hexdigest()

    assert encode_id("a" * 121) == "a" * 80 + "~" + digest[:32]
    assert encode_id("x" * 78 + "é" * 30).startswith("x" * 78 + "~"), "no half of an escape"


@given(st.text("aé/", min_size=121, max_size=300), st.text("aé/", min_size=121, max_size=300))
def test_long_ids_are_told_apart_by_all_of_them(one: str, two: str) -> None:
    """Ids with one long beginning differ in their digest."""
    assume(one != two)
    beginning = "x" * 100

    assert encode_id(beginning + one) != encode_id(beginning + two)


def test_no_user_is_no_id() -> None:
    """The app's own state is under a name that no user can have."""
    assert Scope("a", None).entries == "state/entries/app=a/user=-/"
    assert Scope("a", "-").entries == "state/entries/app=a/user=%2d/"


def test_keys_are_spelled_so_for_ever() -> None:
    """Lakes that exist depend on these names."""
    log = SessionKey("travel", "Ana", "s/1").log
    entries = Scope("travel", "Ana").entries
    stamp = stamp_text(1_700_000_000_000_000, 3, "00000000000000ff")

    assert log == "events/log/app=travel/user=%41na/session=s%2f1/"
    assert commit_key(log, 7) == log + "00000000000000000007.parquet"
    assert rollup_key(log, 7) == log + "00000000000000000007r.parquet"
    assert entries == "state/entries/app=travel/user=%41na/"
    assert entry_key(entries, stamp, fold=False) == (
        entries + "01700000000000000-000003-00000000000000ff.parquet"
    )
    assert entry_key(entries, stamp, fold=True) == (
        entries + "01700000000000000-000003-00000000000000fff.parquet"
    )


@given(IDS, IDS, IDS)
def test_every_log_is_under_its_user_and_app(app: str, user: str, session: str) -> None:
    """A listing of an app or a user meets its logs and entries, and a log is known as one."""
    key = SessionKey(app, user, session)

    assert key.log.startswith(user_logs(app, user))
    assert user_logs(app, user).startswith(app_logs(app))
    assert is_log_folder(key.log)
    for scope in (Scope(app, user), Scope(app, None)):
        assert scope.entries.startswith(app_entries(app))
        assert not is_log_folder(scope.entries)


def test_a_slash_in_an_id_is_no_folder() -> None:
    """However three ids are cut out of one path, each cut is a session of its own."""
    cuts = [("a", "b", "c/d"), ("a", "b/c", "d"), ("a/b", "c", "d"), ("a", "b", "c%2fd")]
    logs = {SessionKey(*cut).log for cut in cuts}

    assert len(logs) == len(cuts)
    assert {log.count("/") for log in logs} == {5}


@given(st.integers(0, 10**20 - 1))
def test_a_version_comes_back(version: int) -> None:
    """A name in a log tells its version and whether it is a rollup."""
    assert parse_log_name(commit_key("", version)) == (version, False)
    assert parse_log_name(rollup_key("", version)) == (version, True)


@given(st.integers(0, 10**20 - 1), st.integers(0, 10**20 - 1))
def test_names_sort_as_versions_do(one: int, two: int) -> None:
    """A listing is in the order of versions, a commit before its rollup."""
    assert (commit_key("", one) < commit_key("", two)) == (one < two)
    assert (rollup_key("", one) < commit_key("", two)) == (one < two)


@given(
    st.integers(0, 10**16 - 1), st.integers(0, 999_999), st.integers(0, 2**64 - 1), st.booleans()
)
def test_a_stamp_comes_back(micros: int, counter: int, token: int, fold: bool) -> None:
    """The name of an entry tells its stamp and whether it is a fold."""
    stamp = stamp_text(micros, counter, f"{token:016x}")

    assert parse_entry_name(entry_key("", stamp, fold=fold)) == (stamp, fold)


# R070
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".DS_Store",
        "_SUCCESS",
        "README.md",
        "1.parquet",
        "00000000000000000001.parquet.crc",
        ".00000000000000000001.parquet",
        "00000000000000000001 (1).parquet",
        "00000000000000000001.parquet~",
        "00000000000000000001.PARQUET",
        "00000000000000000001R.parquet",
        "00000000000000000001rr.parquet",
        "00000000000000000001xparquet",
        "00000000000000000001.parquet\n",
        "0000000000000000000x.parquet",
        "-0000000000000000001.parquet",
        "000000000000000000001.parquet",
        _ARABIC_ZERO * 19 + "1.parquet",
        "01700000000000000-000003-00000000000000f.parquet",
        "01700000000000000-000003-00000000000000FF.parquet",
        "01700000000000000-000003-00000000000000ffr.parquet",
        "17" + _ARABIC_ZERO * 14 + "-000003-00000000000000ff.parquet",
        "01700000000000000-000003.parquet",
    ],
)
def test_a_stray_is_no_name_of_ours(name: str) -> None:
    """Only names that we would have written count."""
    assert parse_log_name(name) is None
    assert parse_entry_name(name) is None


@pytest.mark.parametrize(
    "folder",
    [
        "events/log/",
        "events/log/app=a/",
        "events/log/app=a/user=u/",
        "events/log/app=a/user=u/session=s/old/",
        "events/log/app=a/user=u/s/",
        "events/log/app=a/session=s/user=u/",
        "events/log/app=a/user=u/session=s",
        "state/entries/app=a/user=u/",
        "",
    ],
)
def test_a_folder_of_others_is_no_log(folder: str) -> None:
    """Only a folder of an app, a user and a session is a log."""
    assert not is_log_folder(folder)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "empty"),
        ("a\x00b", "NUL"),
        ("\ud800", "surrogate"),
        ("a\udfff", "surrogate"),
        (None, "NoneType"),
        (7, "int"),
        (b"u", "bytes"),
        (["u"], "list"),
    ],
)
def test_what_cannot_be_an_id_is_refused(value: object, why: str) -> None:
    """The error names which id it was and what is wrong with it, and is a ValueError."""
    with pytest.raises(InputError, match=f"user_id.*{why}"):
        check_id("user_id", value)
    with pytest.raises(ValueError, match="user_id"):
        check_id("user_id", value)


@pytest.mark.parametrize("value", [text for text in REPORTED if "\x00" not in text] + [" ", "\t"])
def test_any_other_text_is_an_id(value: str) -> None:
    """Ids are kept letter by letter, blanks too."""
    assert check_id("user_id", value) == value
