"""Numbers as people write them: $106,790.63, 1.234,5 EUR, (12), 7 %."""

import re

from fwc_llm.taskfile import Written

# What may stand around a number: a currency's sign or letters, a per cent sign, spaces.
_CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|CAD|AUD|NZD|BRL|MXN|ZAR|TRY|RUB|KRW|ILS"
    "|DM|kr|Kr|zł|Fr|Rs"
)
_AROUND = rf"(?:(?:{_CODES})\.?|[A-Z]{{0,3}}[$€£¥]|[₹₩₽₺¢%])?"
_LONGEST = 60  # characters of a number with all that stands around it
_SPACE = "[\\s\u00a0\u202f]*"
_NUMBER = re.compile(
    rf"(?P<open>\()?{_SPACE}(?P<sign>[-+−]?){_SPACE}{_AROUND}{_SPACE}(?P<inner>[-+−]?){_SPACE}"
    rf"(?P<digits>\d[\d.,'’\s\u00a0\u202f]*|[.,]\d+){_SPACE}{_AROUND}{_SPACE}(?P<close>\))?"
)
_GROUPED = {
    "1,234.5": re.compile(r"(?:\d{1,3}(?:[,'’\s\u00a0\u202f]\d{3})+|\d*)(?:\.\d*)?"),
    "1.234,5": re.compile(r"(?:\d{1,3}(?:[.'’\s\u00a0\u202f]\d{3})+|\d*)(?:,\d*)?"),
}


def as_plain(cell: str, written: Written) -> str:
    """The number in `cell` as "1234.5", or `cell` as it is when it holds no number written so."""
    match = _NUMBER.fullmatch(cell) if len(cell) <= _LONGEST else None
    if not written or match is None or bool(match["open"]) != bool(match["close"]):
        return cell
    digits = match["digits"].strip()
    if not _GROUPED[written].fullmatch(digits) or not any(map(str.isdigit, digits)):
        return cell
    plain = re.sub(r"[^\d.,]", "", digits)
    plain = plain.replace(",", "") if written == "1,234.5" else plain.replace(".", "").replace(",", ".")
    negative = bool(match["open"]) + (match["sign"] in "-−" and bool(match["sign"]))
    negative += match["inner"] in "-−" and bool(match["inner"])
    return f"-{plain}" if negative == 1 else plain if negative == 0 else cell
