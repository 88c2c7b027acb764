"""Texts, numbers and JSON of others: nothing in them can stop, steer or fill the program."""

import html
import json
import math
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.errors import FwcError
from fwc_llm.sanitize import (
    LARGEST_VALUE,
    as_single_line,
    escape_invisible,
    hide_variable,
    parse_finite,
    parse_json,
    parse_uint,
    redact,
    replace_invisible,
    sanitize_json,
    truncate,
    utf8_safe,
)

ANY_TEXT = st.text(
    st.characters(categories=None), max_size=60
)  # surrogates and controls included
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4)
    ),
)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_no_json(opening: str) -> None:
    with pytest.raises(ValueError, match=r"nested|Extra data"):
        parse_json(opening * 100_000)


def test_a_byte_order_mark_is_no_trouble() -> None:
    assert parse_json("\ufeff[1]") == parse_json(b"\xef\xbb\xbf[1]") == [1]


def test_numbers_without_end() -> None:
    assert parse_json("[NaN, Infinity, -Infinity, 1e400, -1e999, 1e3]") == [
        None
    ] * 5 + [1000.0]
    assert parse_json("9" * 400) == int("9" * 400)
    assert parse_json("[" + "9" * 5000 + "]") == [None], "more digits than Python reads"
    for text in ("NaN", "-Infinity"):
        with pytest.raises(ValueError, match="not JSON"):
            parse_json(text, strict=True)


def test_what_counts_as_a_number() -> None:
    assert [parse_uint(value) for value in (0, 7, 7.0, 2**53 - 1)] == [
        0,
        7,
        7,
        2**53 - 1,
    ]
    bad = (-1, 0.5, 2**53, 10**400, math.inf, math.nan, True, "7", None, [7])
    assert [parse_uint(value) for value in bad] == [None] * len(bad)
    assert [parse_finite(value) for value in (10**400, math.nan, False, "1")] == [
        None
    ] * 4
    assert parse_finite(3) == 3.0


@given(ANY_TEXT)
def test_every_text_can_be_stored_and_shown(text: str) -> None:
    utf8_safe(text).encode("utf-8")
    shown = replace_invisible(text)
    shown.encode("utf-8")
    assert not any(
        0x7F <= ord(c) <= 0x9F or (ord(c) < 32 and c not in "\n\t") for c in shown
    )
    assert replace_invisible(shown) == shown


@pytest.mark.parametrize(
    "mark",
    ["\x1b]52;c;AAAA\x07", "\x9b2J", "\u202e", "\u2066", "\r", "\ud800", "\u2028"],
)
def test_what_steers_a_terminal_is_replaced(mark: str) -> None:
    assert mark[0] not in replace_invisible(f"a{mark}b")
    assert replace_invisible(f"a{mark}b").startswith("a\ufffd")
    kept = escape_invisible(json.dumps([f"a{mark}b"], ensure_ascii=False))
    assert mark[0] not in kept
    assert json.loads(kept) == [f"a{mark}b"]


def test_ordinary_texts_are_shown_as_they_are() -> None:
    for text in (
        "Müller & Søn",
        "日本語",
        "می\u200cخواهم",
        "👩\u200d🔬",
        "a\tb\nc",
        "−0.5 ± 0.1",
    ):
        assert replace_invisible(text) == text
        assert utf8_safe(text) == text


def test_long_texts_are_cut_and_marked() -> None:
    assert truncate("x" * 10, 10) == "x" * 10
    cut = truncate("x" * 200_000)
    assert len(cut) == 65_536
    assert cut.endswith("… [cut: it had 200,000 characters]")


@given(ANY_JSON)
def test_tamed_json_can_be_written(value: object) -> None:
    json.dumps(sanitize_json(value), ensure_ascii=False).encode("utf-8")


def test_nesting_without_end_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested"):
        sanitize_json(deep)


def test_a_tamed_value_has_a_size() -> None:
    many = {"texts": ["x" * 60_000] * 100, "items": [[1] * 1000] * 10_000}
    assert len(json.dumps(sanitize_json(many))) < 4 * LARGEST_VALUE


KEY = "plant/ed+&0123456789=abcDEFghij"


@pytest.mark.parametrize(
    "variable",
    [
        "OPENAI_API_KEY",
        "SERVICE_APIKEY",
        "HF_TOKEN",
        "DB_PASSWORD",
        "aws_secret_2",
        "MY_KEY_BACKUP",
        "GITHUB_PAT",
        "MAIL_PASS",
        "REGISTRY_AUTH",
        "LOGIN",
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        str,
        str.upper,
        html.escape,
        quote,
        lambda key: quote(key, safe=""),
        lambda key: quote(quote(key, safe="")).lower(),
        lambda key: "".join(f"%{ord(character):02X}" for character in key),
        lambda key: json.dumps(key).replace("/", r"\/")[1:-1],
    ],
)
def test_a_key_is_taken_out_in_every_form(
    variable: str, form: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, KEY)
    if variable == "LOGIN":
        hide_variable(variable)
    assert redact(f"EMPTY before {form(KEY)} after") == "EMPTY before [key] after"
    assert str(FwcError(f"bad {form(KEY)}")) == "bad [key]"


def test_keys_in_headers_and_addresses_are_taken_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", f"x-team: seven\nAuthorization: Basic {KEY}"
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://someone:correct-horse@proxy.example:8080")
    assert redact(f"seven, {KEY}; correct-horse@proxy") == "seven, [key]; [key]@proxy"


@given(
    st.sampled_from(
        ["sk-ant-api03-", "sk-proj-", "AIza", "ghp_", "hf_", "gsk_", "xai-", "r8_"]
    )
    | st.sampled_from(["github_pat_", "glpat-", "xoxb-", "rk_live_"]),
    st.from_regex(r"[A-Za-z0-9]{24,40}", fullmatch=True),
    st.sampled_from(
        ["{}", "key={}", '{{"k":"{}"}}', "({}).", "https://service.example/?key={}"]
    )
    | st.sampled_from(["a%20{}%20b", "a\\n{}", "\\u0022{}"]),
)
def test_what_has_the_form_of_a_key_is_taken_out(
    prefix: str, rest: str, around: str
) -> None:
    text = around.format(prefix + rest)
    assert redact(text) == around.format("[key]")
    assert redact(text, by_form=False) == text, "a table's cell may look like a key"
    assert "AKIA" not in str(
        sanitize_json(["AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"])
    )


@pytest.mark.parametrize(
    "text",
    [
        "Basic education",
        "bearer instruments",
        "risk-assessment-of-2020",
        "hf_admissions_of_2019",
    ],
)
def test_words_of_a_table_have_no_form_of_a_key(text: str) -> None:
    assert redact(text) == text


def test_escapes_of_json_hide_no_key_and_a_cut_comes_after_the_redaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_KEY", KEY)
    escaped = "".join(f"\\u{ord(character):04X}" for character in KEY)
    told = json.dumps(sanitize_json(parse_json(f'{{"{KEY}": "bad {escaped}"}}')))
    assert told.count("[key]") == 2
    assert KEY[:5] not in sanitize_json("x" * 65_490 + KEY + "y" * 100)
    assert KEY[:5] not in as_single_line("x" * 290 + KEY)


def test_a_word_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "EMPTY")
    monkeypatch.setenv(
        "MY_CREDENTIALS", str(Path(__file__).parent)
    )  # a path that error messages need
    assert redact(f"an EMPTY reply in {__file__}") == f"an EMPTY reply in {__file__}"
