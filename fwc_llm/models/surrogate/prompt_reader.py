"""Parses prompts for the surrogate: described people, and answers in examples.

A person is described by one message, which has every attribute of Adult once, by name ("age",
"marital status", …), followed by the value: on its own line ("- age: 39 years") or up to the next
comma ("age 39, workclass Private, …").
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from textwrap import shorten

from fwc_llm.errors import ProviderError
from fwc_llm.models.base import Messages, role_of

NUMERIC = (
    "age",
    "highest education level",
    "capital gain",
    "capital loss",
    "hours per week",
)
CATEGORICAL = (
    "workclass",
    "education",
    "marital status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native country",
)
# The two answer words in the request of a template: "one word, yes or no."
_WORDS = re.compile(
    r"(?:one (?:word|answer),|a colon, and|exactly|the word) '?([^',.\n]{1,40}?)'? or "
    r"'?([^'.\n]{1,40}?)'?\."
)
# The request for a probability; what it is of may be quoted.
_STATED = re.compile(
    r"number from 0 to 1[:,] the probability (?:that the answer is|of) "
)
_pairs = lru_cache(maxsize=8192)(
    _WORDS.findall
)  # every question of an arm repeats the same examples
_WEIGHTS = ("weight of this example", "weight")


class UnreadablePromptError(ProviderError):
    """The surrogate cannot read the prompt. The error stops the run, with exit code 2."""

    exit_code = 2

    def __init__(self, problem: str) -> None:
        super().__init__(f"the surrogate cannot read this prompt: {problem}")


@dataclass(frozen=True)
class Person:
    """A person described in a message, with the `weight` of an example."""

    numbers: tuple[float, ...]  # in the order of `NUMERIC`
    words: tuple[str, ...]  # in the order of `CATEGORICAL`
    weight: float | None = None

    def number(self, name: str) -> float:
        """The value of a numeric attribute."""
        return self.numbers[NUMERIC.index(name)]

    def word(self, name: str) -> str:
        """The value of a categorical attribute."""
        return self.words[CATEGORICAL.index(name)]


@dataclass(frozen=True)
class Reading:
    """A parsed prompt: the queried person, m examples and their m answers (True: yes)."""

    person: Person
    examples: tuple[Person, ...]
    answers: tuple[bool, ...]
    words: tuple[
        str, str
    ]  # for yes and no, capitalized if the last example's answer is
    stated: bool = False  # a probability is asked for


def read(messages: Messages) -> Reading:
    """Parse a prompt: examples, then the person; `UnreadablePromptError` if it fails."""
    by_role = [(role_of(message), message["content"]) for message in messages]
    turns = [(role, text) for role, text in by_role if role in ("user", "assistant")]
    if not turns or turns[-1][0] != "user":
        raise UnreadablePromptError(
            "it looked for a last message of role user that describes the person to predict"
        )
    *earlier, (_, last) = turns
    answers = [text.strip().rstrip(".") for _, text in earlier[1::2]]
    pairs = [pair for _, text in by_role for pair in _pairs(text)]
    yes, no = pairs[-1] if pairs else ("yes", "no")
    if answers and answers[-1][:1].isupper():
        yes = yes[:1].upper() + yes[1:]
        no = no[:1].upper() + no[1:]
    paired = [role for role, _ in earlier] == ["user", "assistant"] * len(answers)
    if not paired or any(
        answer.lower() not in (yes.lower(), no.lower()) for answer in answers
    ):
        raise UnreadablePromptError(
            "it looked for examples as pairs of messages, one of role user (or named example_user) "
            "that "
            "describes a person, then one of role assistant (or named example_assistant) that says "
            f"{yes.lower()} or {no.lower()}"
        )
    return Reading(
        describe(last),
        examples=tuple(describe(text) for _, text in earlier[::2]),
        answers=tuple(answer.lower() == yes.lower() for answer in answers),
        words=(yes, no),
        stated=any(_STATED.search(text) for _, text in by_role),
    )


_LONGEST_FIRST = sorted(
    (*NUMERIC, *CATEGORICAL, "final weight", *_WEIGHTS), key=len, reverse=True
)
_NAMES = "|".join(_LONGEST_FIRST).replace(" ", "[ _-]")
# A lead-in ends with a colon ("… has the following attributes: age 39"); a bullet may precede the
# words.
_ATTRIBUTE = re.compile(
    rf"(?:.*?:\s+)??[-*•\s]*({_NAMES})(?:\s*[:=]\s*|\s+(?:is\s+)?)(\S.*)", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?=\s|$)")


@lru_cache(maxsize=8192)
def describe(text: str) -> Person:
    """Parse the description of a person, with all attributes."""
    values: dict[str, str] = {}
    for name, value in filter(None, map(_attribute, re.split(r"[,;\n]", text))):
        if name in values:
            raise UnreadablePromptError(
                f"{name!r} stands twice in one message, and it reads one person a message"
            )
        values[name] = value
    absent = [repr(name) for name in (*NUMERIC, *CATEGORICAL) if name not in values]
    if absent:
        raise UnreadablePromptError(
            f"it looked for the attributes of tasks adult and census and did not find "
            f"{', '.join(absent)} in {shorten(text, 60, placeholder='…')!r}; another table needs a "
            "language model or, without prompts, --model baseline, a logistic regression on its "
            "rows"
        )
    if "weight" in values:
        weight = _number("weight", values["weight"], text)
    else:
        weight = None
    return Person(
        numbers=tuple(_number(name, values[name], text) for name in NUMERIC),
        words=tuple(values[name] for name in CATEGORICAL),
        weight=weight,
    )


@lru_cache(maxsize=8192)
def _attribute(segment: str) -> tuple[str, str] | None:
    """(name, value) of the attribute in a segment of a message, or None."""
    match = _ATTRIBUTE.fullmatch(segment.strip())
    if not match:
        return None
    name = re.sub("[ _-]", " ", match[1].lower())
    return "weight" if name in _WEIGHTS else name, match[2].strip().removesuffix(".")


def _number(name: str, value: str, text: str) -> float:
    match = _NUMBER.match(value)
    if not match or not abs(float(match[0])) < 1e9:
        raise UnreadablePromptError(
            f"it looked for a number after {name!r} and found {value[:40]!r}"
        )
    return float(match[0])
