"""Replies without an answer: the most frequent texts, and what to do about them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from fwc_llm.models.bodies import asks_json
from fwc_llm.models.openai.chat import REASONING_TOKENS, completion_limit
from fwc_llm.sanitize import Fields, replace_invisible

# Reasons that are findings about the model, not faults of the run.
KEPT_BACK = ("refused", "filtered")
NO_P = "without the P(yes) that --threshold needs"
_LONGEST = 120  # characters of a reply in a message
_MOST_TEXTS = 3


def frequent_texts(texts: Iterable[str | None]) -> list[str]:
    """The three most frequent texts, each on one line, with their numbers."""
    counts = Counter(
        replace_invisible(" ".join((text or "").split())) for text in texts
    )
    del counts[""]
    found = []
    for text, number in counts.most_common(_MOST_TEXTS):
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}…"
        found.append(f"{number:,} times “{text}”")
    return found


def unread_remedy(
    reasons: Mapping[str, int], parameters: Fields, stated: bool = False
) -> str:
    """What to do about replies without an answer, by their reasons; "" if that is a finding.

    `stated`: the replies have to state P(yes).
    """
    commonest = max(reasons, key=reasons.__getitem__)
    limit = completion_limit(parameters)
    if commonest in KEPT_BACK:
        return ""
    if commonest == NO_P:
        return "leave --threshold out, or ask for log-probabilities (--logprobs)"
    if stated and commonest != "truncated":
        return (
            "a reply has to state one number from 0 to 1: try another --template, or "
            "--answer-format word"
        )
    if limit is None:  # no chat model
        return "look at what the model returns to one prompt"
    if commonest == "truncated":
        more = f"--max-tokens {max(REASONING_TOKENS, 4 * limit)}"
        less = " or --param reasoning_effort=low" if limit >= REASONING_TOKENS else ""
        return (
            f"the model spends its {limit:,} tokens before it answers: give it more with "
            f"{more}{less}"
        )
    if asks_json(parameters):
        return (
            "the service does not keep to the answer format: try --answer-format word, or a "
            "--template"
        )
    return "try another --template, or --answer-format json if the service knows it"


def unread_summary(
    rows: Iterable[Fields], parameters: Fields, stated: bool = False
) -> str:
    """A sentence on the replies without an answer in rows of answers.csv; "" for none."""
    unread = [row for row in rows if not row["answer"] and row["reason"] != "error"]
    if not unread:
        return ""
    texts = (
        "; ".join(frequent_texts(row["reply"] for row in unread)) or "none has a text"
    )
    reasons = Counter(row["reason"] for row in unread)
    remedy = unread_remedy(reasons, parameters, stated)
    found = f"most frequent among the replies without an answer: {texts}"
    return f"{found}. Remedy: {remedy}" if remedy else found
