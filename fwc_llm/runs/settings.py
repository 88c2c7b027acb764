"""What determines a run, and which of it nobody has said."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


class Whole(int):
    """A whole number that is only a default: it may move."""

    __slots__ = ()


class Share(float):
    """A share that is only a default: it may be given up."""

    __slots__ = ()


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
    template          a template set's name, or a folder with one of your own
    templates         several of them: each makes an arm, and `template` is not looked at
    orders            of the examples; empty: the strategy's own; each of several makes an arm
    weights           "show" or "hide" the weights of the examples
    redraw            balanced examples: "once" a repeat, or "per-row"
    counterfactual    ask again with the protected level changed
    strategy_options  for the strategies that take them, by name
    samples           how often every prompt is asked
    """

    m: int = M
    epsilon: float | None = 0.01
    n_test: int = N_TEST
    base_parity: float | None = BASE_PARITY
    repeats: int = 1
    seed: int = 0
    template: str = "default"
    orders: tuple[str, ...] = ()
    weights: str = "show"
    redraw: str = "once"
    counterfactual: bool = False
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    templates: tuple[str, ...] = ()
    samples: int = 1

    @property
    def wordings(self) -> tuple[str, ...]:
        """The template sets, one or several."""
        return tuple(self.templates) or (self.template,)

    def as_json(self) -> dict[str, Any]:
        """The settings as written to run.json: `templates` and `samples` where there are several.

        So a folder of a version that knew neither is continued.
        """
        found = asdict(self) | {"orders": list(self.orders), "strategy_options": dict(self.strategy_options)}
        found["templates"] = list(self.templates)
        return {
            name: value
            for name, value in found.items()
            if (name, value) not in (("templates", []), ("samples", 1))
        }
