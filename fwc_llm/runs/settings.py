"""What determines a run, and which of it nobody has said."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


class Whole(int):
    """A whole number that is only a default: it may move."""

    __slots__ = ()


class Share(float):
    """A share that is only a default: it may be given up."""

    __slots__ = ()


class Words(str):
    """A text that is only a default: another may stand in its place."""

    __slots__ = ()


TEMPLATE, APIS = Words("default"), ("chat", "decisions", "systemone")
DECISION_TEMPLATE = "decision"
FITTED = ("fit", "base-rate")  # thresholds that are chosen on rows of the pool
LATER: Mapping[str, Any] = {  # settings that earlier versions lack
    "api": "chat",
    "consistency": False,
    "threshold": None,
    "threshold_rows": None,
    "templates": [],
    "samples": 1,
}
N_TEST, BASE_PARITY, M = Whole(200), Share(0.5), Whole(16)


@dataclass(frozen=True)
class Settings:
    """Everything that determines what is asked. Defaults are the paper's experiment.

    See docs/protocol.md, "The paper's experiment". The defaults of `m`, `n_test` and `base_parity` move to
    the nearest that the table allows, and the plan says so (docs/own-data.md, "What the defaults do"); a
    number that is given is taken or refused.

    m                 examples per prompt
    epsilon           largest relative parity violation of the coreset; None for no limit
    n_test            test rows per repeat
    base_parity       gap of the groups' base rates in the test rows; None draws rows as they fall
    repeats           repeat r draws its rows and its examples from seed + r
    seed              of the first repeat
    template          a template set's name, or a folder with one of your own; "decision" with an `api`
                      other than "chat"
    templates         several of them: each makes an arm, and `template` is not looked at
    orders            of the examples; empty: the strategy's own; each of several makes an arm
    weights           "show" or "hide" the weights of the examples
    redraw            balanced examples: "once" a repeat, or "per-row"
    counterfactual    ask again with the protected level changed
    threshold         P(yes) from which the answer is yes, beside the answer as it was given: a number, or
                      "fit" (most accurate) or "base-rate" (as many yes as there are), both chosen on rows
                      of the pool that are asked beforehand (docs/protocol.md, "A threshold")
    threshold_rows    how many rows of the pool that takes; None: as many as test rows, at most 200
    api               "chat", or "decisions" or "systemone" for models that give P(yes) and no text
    consistency       ask for the negation and a paraphrase in the same request (not with "chat")
    strategy_options  for the strategies that take them, by name
    samples           how often every prompt is asked
    """

    m: int = M
    epsilon: float | None = 0.01
    n_test: int = N_TEST
    base_parity: float | None = BASE_PARITY
    repeats: int = 1
    seed: int = 0
    template: str = TEMPLATE
    orders: tuple[str, ...] = ()
    weights: str = "show"
    redraw: str = "once"
    counterfactual: bool = False
    threshold: float | str | None = None
    threshold_rows: int | None = None
    api: str = "chat"
    consistency: bool = False
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    templates: tuple[str, ...] = ()
    samples: int = 1

    @property
    def wordings(self) -> tuple[str, ...]:
        """The template sets, one or several."""
        return tuple(self.templates) or (self.template,)

    def __post_init__(self) -> None:
        if self.api != "chat" and isinstance(self.template, Words):
            object.__setattr__(self, "template", DECISION_TEMPLATE)

    @property
    def questions(self) -> Literal["", "one", "several"]:
        """Which questions prompts hold apart from the input; see `Prompt`."""
        return "" if self.api == "chat" else "several" if self.consistency else "one"

    def as_json(self) -> dict[str, Any]:
        """The settings as written to run.json; what earlier versions lack stands there where it is used."""
        found = asdict(self) | {"orders": list(self.orders), "strategy_options": dict(self.strategy_options)}
        found["templates"] = list(self.templates)
        return {name: value for name, value in found.items() if name not in LATER or value != LATER[name]}
