"""The key, however it is spelt, is taken out of what a service sends."""

import base64
import json
import textwrap
import urllib.parse

import pytest

from fwc_llm.models.openai.secret import Secret
from fwc_llm.untrusted import parse_json, tamed

KEY = "sk-plant/ed+0123456789=abcDEFghij"


def spellings() -> dict[str, str]:
    raw = KEY.encode()
    return {
        "as it is": KEY,
        "upper case": KEY.upper(),
        "lower case": KEY.lower(),
        "URL": urllib.parse.quote(KEY, safe=""),
        "URL, small hex": urllib.parse.quote(KEY, safe="").lower(),
        "URL, twice": urllib.parse.quote(urllib.parse.quote(KEY, safe=""), safe=""),
        "URL, all": "".join(f"%{byte:02X}" for byte in raw),
        "base64": base64.b64encode(raw).decode(),
        "base64 in a longer text": base64.b64encode(b"user:" + raw + b"@host").decode(),
        "base64, shifted": base64.b64encode(b"ab" + raw).decode(),
        "base64 for URLs": base64.urlsafe_b64encode(b"a" + raw).decode(),
        "hex": raw.hex(),
        "JSON in a text": KEY.replace("/", "\\/").replace("+", "\\u002B"),
        "JSON in JSON in a text": KEY.replace("/", "\\\\/").replace("+", "\\\\u002b"),
        "all JSON escapes": "".join(f"\\u{ord(c):04x}" for c in KEY),
        "HTML": "".join(f"&#{ord(c)};" for c in KEY),
        "HTML, hex": "".join(f"&#x{ord(c):X};" for c in KEY),
        "HTML, names": KEY.replace("/", "&sol;").replace("+", "&plus;").replace("=", "&equals;"),
        "lines": "\r\n    ".join(textwrap.wrap(KEY, 9)),
        "lines of HTML": "<br>\n".join(textwrap.wrap(KEY, 9)),
        "lines in JSON in a text": "\\n".join(textwrap.wrap(KEY, 9)),
        "pieces": str(textwrap.wrap(KEY, 9)),
        "base64 in lines": "\n".join(textwrap.wrap(base64.b64encode(b"Bearer " + raw).decode(), 20)),
        "base64, URL": urllib.parse.quote(base64.b64encode(b"user:" + raw).decode(), safe=""),
        "JavaScript": "".join(f"\\u{{{ord(c):x}}}" for c in KEY),
        "hex, bytes apart": raw.hex(":"),
        "only its beginning": KEY[:25],
        "after letters that grow": "İ" * 9 + KEY.upper(),
        "its end after letters that grow": "İ" * 9 + KEY[-25:],
        "only its end": KEY[-25:],
    }


@pytest.mark.parametrize("spelling", spellings())
def test_every_spelling_is_redacted(spelling: str) -> None:
    text = spellings()[spelling]
    redacted = Secret(KEY).redact(f"before {text} after")
    assert "[key]" in redacted
    assert "0123456789" not in redacted
    longest = max(
        (text[i : i + 12] for i in range(len(text) - 12) if text[i : i + 12] in redacted), default=""
    )
    assert not longest, "no long piece of it is left"


def test_escapes_of_json_hide_nothing() -> None:
    body = '{"error": {"message": "bad ' + "".join(f"\\u{ord(c):04X}" for c in KEY) + '", "' + KEY + '": 1}}'
    secret = Secret(KEY)
    told = json.dumps(tamed(parse_json(body), secret.redact))
    assert "0123456789" not in told
    assert told.count("[key]") == 2


def test_a_cut_comes_after_the_redaction() -> None:
    told = tamed("x" * 65_490 + KEY + "y" * 100, Secret(KEY).redact)
    assert KEY[:5] not in told


def test_a_word_is_no_secret() -> None:
    assert Secret("EMPTY").redact("an EMPTY reply") == "an EMPTY reply"


def test_other_texts_stay() -> None:
    text = "100 % of 5 & 6 \\ 7 %41 &#65; sk-other"
    assert Secret(KEY).redact(text) == text
