"""The surrogate: a simulation of gpt-4-0314 on Adult rows, never a measurement.

It reads only the text of the prompt, and answers yes with the probability

    σ( β·φ(x) + β_k·log-odds(x) + [examples]·(γ + ζ·terms) )

`φ(x)` are features of the queried row x. `log-odds(x)` come from a logistic regression of income on
these features over adult.data: a model of what a language model knows before it sees examples.
`[examples]` is 1 for a prompt with examples, else 0. `terms` summarize the examples (`context`).
The recorded answers do not tell which terms are right, so there are several *forms* with different
terms; forms differ where no recording exists. `evals/fit_surrogate.py` fits all coefficients to
recorded zero-shot, 4-, 16- and 30-shot answers. evals/surrogate.md has the limits of the
simulation.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import ne
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fwc_llm.errors import FwcError
from fwc_llm.models.base import SIMULATED, Messages, Reply, Unconnected, Usage
from fwc_llm.models.surrogate.prompt_reader import Person, Reading, read
from fwc_llm.sanitize import Json, parse_toml

NAME = "surrogate"
# Standard deviations of Adult's numeric attributes over adult.data, for the distance between
# people.
_SPREAD = np.array([13.13, 2.55, 7406.0, 404.0, 11.98])
_FARTHEST = 3.0  # caps the distance in one numeric attribute, in standard deviations
_REACH = 4.0  # distance at which an example's weight falls by the factor e
CONTEXT = ("examples", "vote", "surprise", "own", "other")
FORMS = (
    "surprise+rates",
    "rates",
    "vote+surprise",
)  # the first is the default; held-out fit is equal
# Attributes with a feature for each category; categories without one have none of these.
_CATEGORIES = ("occupation", "workclass", "marital status", "relationship", "race")
_SOME_COLLEGE = 10  # highest education level
_count_words = lru_cache(maxsize=8192)(lambda text: len(text.split()))


@cache
def _packaged() -> Json:
    """The file that `evals/fit_surrogate.py` writes."""
    text = Path(__file__).with_name("surrogate.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def feature_names() -> tuple[str, ...]:
    """The names of the features, in the order of `vector`."""
    return tuple(_packaged()["world"])


@cache
def _products() -> list[list[str]]:
    """The names of features that are products, with those of their two factors."""
    return [[name, *name.split(" × ")] for name in feature_names() if " × " in name]


@cache
def _made() -> Json:
    """How features are made of attributes."""
    return parse_toml(
        Path(__file__).with_name("features.toml").read_text(encoding="utf-8")
    )


def _features(person: Person) -> dict[str, float]:
    """The features of one person by name, on their natural scales; absent ones are 0."""
    numbers = {
        "age": person.number("age"),
        "hours": person.number("hours per week"),
        "schooling": person.number("highest education level") - _SOME_COLLEGE,
        "gain": person.number("capital gain"),
        "loss": person.number("capital loss"),
    }
    by_name = {f"{name} {person.word(name)}": 1.0 for name in _CATEGORIES} | numbers
    for name in ("gain", "loss"):
        by_name[f"log {name}"] = float(np.log1p(max(numbers[name], 0.0)))
    for name, (of, side, knot) in _made()["hinges"].items():
        by_name[name] = max(0.0, side * (numbers[of] - knot))
    for name, (of, least) in _made()["steps"].items():
        by_name[name] = float(numbers[of] >= least)
    for name, (of, *words) in _made()["words"].items():
        by_name[name] = float(person.word(of) in words)
    return by_name


@lru_cache(maxsize=8192)
def vector(person: Person) -> NDArray[np.float64]:
    """The features as a cached array (p,), with products of two; do not modify it."""
    plain = _features(person)
    factors = plain | {
        "age": plain["age"] - 38,
        "hours": plain["hours"] - 40,
        "bachelor": plain["bachelor or more"],
    }
    products = {name: factors[one] * factors[other] for name, one, other in _products()}
    by_name = plain | products
    return np.array([by_name.get(name, 0.0) for name in feature_names()])


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of a fitted surrogate, on the natural scales of the features.

    `world` (p,) and `world_intercept` give log-odds(x). `prior` (p + 1,) are the weights of φ and
    log-odds. `context` (5,) are the weights of the terms in `CONTEXT`, 0 for terms that the form
    lacks.
    """

    world: NDArray[np.float64]
    world_intercept: float
    prior: NDArray[np.float64]
    context: NDArray[np.float64]
    intercept: float

    @classmethod
    @cache
    def fitted(cls, form: str = FORMS[0]) -> "Coefficients":
        """The packaged coefficients of a form, written by `evals/fit_surrogate.py`."""
        content = _packaged()
        names = feature_names()
        fitted = content["forms"][form]
        return cls(
            world=np.array([content["world"][name] for name in names]),
            world_intercept=float(content["world_intercept"]),
            prior=np.array([fitted["prior"][name] for name in (*names, "log-odds")]),
            context=np.array([fitted["context"].get(name, 0.0) for name in CONTEXT]),
            intercept=float(fitted["intercept"]),
        )

    def log_odds(self, person: Person) -> float:
        """Log-odds of a high income in the census of 1994 (adult.data)."""
        return float(vector(person) @ self.world + self.world_intercept)


def context(reading: Reading, coefficients: Coefficients) -> NDArray[np.float64]:
    """The terms (5,) of the examples, in the order of `CONTEXT`; zeros without examples.

    examples  1
    vote      mean label (−1 no, 1 yes), weighted by exp(−distance / 4) and the weights in the
              prompt
    surprise  mean of label (0 or 1) minus P(yes) of the logistic regression, with the same weights
    own       mean label of the examples of the queried person's sex, by the weights in the prompt,
              or 0
    other     the same for examples of the other sex
    """
    if not reading.examples:
        return np.zeros(len(CONTEXT))
    yes = np.array(reading.answers, dtype=np.float64)
    numbers = (
        np.abs(
            np.subtract([e.numbers for e in reading.examples], reading.person.numbers)
        )
        / _SPREAD
    )
    words = [sum(map(ne, reading.person.words, e.words)) for e in reading.examples]
    distance = np.minimum(numbers, _FARTHEST).sum(axis=1) + words
    weights = np.array(
        [1.0 if e.weight is None else max(e.weight, 0.0) for e in reading.examples]
    )
    if not weights.any():
        weights[:] = 1.0
    say = weights * np.exp(-(distance - distance.min()) / _REACH)
    say /= say.sum()
    expected = np.array(
        [_expected(coefficients, example) for example in reading.examples]
    )
    alike = np.array(
        [e.word("sex") == reading.person.word("sex") for e in reading.examples]
    )
    rates = [
        part @ (2 * yes - 1) / part.sum() if part.any() else 0.0
        for part in (weights * alike, weights * ~alike)
    ]
    return np.array([1.0, say @ (2 * yes - 1), say @ (yes - expected), *rates])


class Surrogate(Unconnected):
    """The simulated model; at a `temperature` above 0, seed and prompt decide the draw."""

    simulated = True

    def __init__(
        self, temperature: float = 0.0, seed: int = 0, form: str = FORMS[0]
    ) -> None:
        if not (math.isfinite(temperature) and temperature >= 0.0):
            raise FwcError(f"temperature is {temperature!r}: give a number from 0 up")
        if form not in FORMS:
            raise FwcError(
                f"the surrogate has no form {form!r}: give one of {', '.join(FORMS)}"
            )
        self.temperature, self.seed, self.form = temperature, seed, form
        self.name = NAME if form == FORMS[0] else f"{NAME}:{form}"
        self.parameters = {
            "temperature": temperature,
            "seed": seed,
            "coefficients": _stamp(form),
        }
        self._fitted = Coefficients.fitted(form)

    def check(self, messages: Messages) -> None:
        """Raise `UnreadablePromptError` for a prompt without a readable person."""
        read(messages)

    def p_yes(self, messages: Messages) -> float:
        """The simulated P(yes); `UnreadablePromptError` for an unreadable prompt."""
        return self._p_yes(read(messages))

    async def ask(self, messages: Messages) -> Reply:
        """Answer at once, with log-probabilities; `usage` counts words."""
        return self.reply(messages)

    def reply(self, messages: Messages) -> Reply:
        """`ask` without an event loop."""
        reading = read(messages)
        p = self._p_yes(reading)
        if self.temperature == 0.0:
            yes = p > 0.5
        else:
            yes = self._draw(messages) < _logistic(
                math.log(p / (1 - p)) / self.temperature
            )
        words = reading.words
        logs = ((words[0], math.log(p)), (words[1], math.log1p(-p)))
        text = words[0] if yes else words[1]
        logprobs = logs if yes else logs[::-1]
        return Reply(
            text=f"{p:.2f}" if reading.stated else text,
            finish_reason="stop",
            logprobs=None if reading.stated else logprobs,
            usage=Usage(
                prompt_tokens=sum(
                    _count_words(message["content"]) for message in messages
                ),
                completion_tokens=1,
            ),
            model=f"{self.name} (simulated)",
            fingerprint=f"{SIMULATED} {_stamp(self.form)}",
        )

    def _p_yes(self, reading: Reading) -> float:
        fitted = self._fitted
        person = reading.person
        score = fitted.intercept + float(
            np.append(vector(person), fitted.log_odds(person)) @ fitted.prior
            + context(reading, fitted) @ fitted.context
        )
        return min(max(_logistic(score), 1e-6), 1 - 1e-6)

    def _draw(self, messages: Messages) -> float:
        """A pseudorandom number in [0, 1) from seed and prompt."""
        text = json.dumps(
            [self.seed, list(messages)], ensure_ascii=False, sort_keys=True
        )
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:7], "big") / 2**56


@cache
def _stamp(form: str) -> str:
    """A hash of the coefficients, 12 hexadecimal digits."""
    fitted = Coefficients.fitted(form)
    return hashlib.sha256(
        np.r_[fitted.world, fitted.prior, fitted.context].tobytes()
    ).hexdigest()[:12]


@lru_cache(4096)
def _expected(coefficients: Coefficients, example: Person) -> float:
    return _logistic(coefficients.log_odds(example))


def _logistic(score: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * score))
