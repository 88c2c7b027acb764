"""A question as a person would ask it, guessed from the names of a table and of its outcome."""

import re
from collections.abc import Collection

YES_WORDS = frozenset(
    {
        "yes", "y", "true", "t", "1", "good", "positive", "pos", "approved", "approve", "accepted",
        "accept", "granted", "grant", "hired", "admitted", "admit", "passed", "pass", "paid", "repaid",
        "ja", "j", "oui", "si", "sí", "sim", "da",
    }
)  # fmt: skip
NO_WORDS = frozenset(
    {
        "no", "n", "false", "f", "0", "bad", "negative", "neg", "rejected", "reject", "denied", "deny",
        "declined", "decline", "refused", "refuse", "not", "failed", "fail", "unpaid", "nein", "non",
        "não", "nao", "niet",
    }
)  # fmt: skip
# What is done to somebody: "Should this loan be …?"
_DONE = {
    "approv": "approved", "accept": "accepted", "grant": "granted", "hir": "hired", "admit": "admitted",
    "admission": "admitted", "promot": "promoted", "select": "selected", "invit": "invited", "fund": "funded",
    "shortlist": "shortlisted", "award": "awarded", "reject": "rejected", "deni": "denied",
    "releas": "released",
}  # fmt: skip
# What happens: "Will this customer …?"
_HAPPENS = {
    "default": "default", "churn": "leave", "recid": "offend again", "reoffen": "offend again",
    "readmi": "be readmitted", "repa": "be repaid", "graduat": "graduate", "drop_?out": "drop out",
}  # fmt: skip
_DULL = re.compile(
    r"^(data|dataset|table|export|final|copy|clean|raw|train|test|sample|my|new|file|csv|v?\d+)$",
    re.IGNORECASE,
)
_PLURALS = {"people": "person", "persons": "person", "children": "child", "women": "woman", "men": "man"}


def draft_question(stem: str, outcome: str, positive: str | None, above: float | None) -> str:
    """Return the question for a table called `stem`; yes means the value `positive`, or above a number."""
    noun, words = thing(stem), spoken(outcome)
    if above is not None:
        return f"Is the {words} of this {noun} above {above:g}?"
    for said in (outcome, positive or ""):
        for root, done in _DONE.items():
            if re.search(rf"(^|[ _-]){root}", said, re.IGNORECASE):
                return f"Should this {noun} be {done}?"
        for root, happens in _HAPPENS.items():
            if re.search(rf"(^|[ _-]){root}", said, re.IGNORECASE):
                return f"Will this {noun} {happens}?"
    if re.search("fraud", outcome, re.IGNORECASE):
        return f"Is this {noun} fraudulent?"
    if positive is None or positive.casefold() in YES_WORDS - {"good", "positive", "bad"}:
        return f"Is the answer to “{words}” yes for this {noun}?"
    return f"Is the {words} of this {noun} {positive}?"


def thing(stem: str) -> str:
    """What one row of a table called `stem` is."""
    words = [word for word in re.split(r"[\W_]+", stem.casefold()) if word and not _DULL.match(word)]
    if not words:
        return "person"
    last = words[-1]
    if last in _PLURALS:
        last = _PLURALS[last]
    elif last.endswith("ies") and len(last) > 4:
        last = f"{last[:-3]}y"
    elif last.endswith("s") and not last.endswith(("ss", "us", "is")) and len(last) > 3:
        last = last[:-1]
    return " ".join([*words[:-1], last])


def spoken(name: str) -> str:
    """A column's name in words."""
    return " ".join(re.sub(r"[_\-]+", " ", name).split()) or name


def means_yes(values: Collection[str]) -> tuple[list[str], list[str]] | None:
    """The values that mean yes and those that mean no, where every one says which."""
    yes = [value for value in values if value.casefold() in YES_WORDS or value.startswith(">")]
    no = [value for value in values if value not in yes]
    if yes and no and (len(values) == 2 or all(value.casefold() in NO_WORDS for value in no)):
        return yes, no
    return None
