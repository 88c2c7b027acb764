"""`Settings`: everything that determines a run."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import field_validator, model_validator

from fwc_llm.options import SERVICE, UNREAD_HELP, VERDICT, Options, option
from fwc_llm.sanitize import parse_finite
from fwc_llm.shots.base import DEFAULT_M

Api: TypeAlias = Literal["chat", "decisions", "systemone"]
DECISION_TEMPLATE = "decision"
FITTED = ("fit", "base-rate")  # thresholds that are chosen on rows of the pool
JUDGED = ("margin", "min_group", "unread", "cluster", "weight", "given", "against")  # how answers are judged


def _rows(values: Mapping[str, Any]) -> int:
    return 2000 if values.get("until_decided") else 200


def _template(values: Mapping[str, Any]) -> str:
    return "default" if values.get("api", "chat") == "chat" else DECISION_TEMPLATE


class Settings(Options):
    """Everything that determines what is asked. Defaults are the paper's experiment (docs/protocol.md).

    The defaults of `m`, `n_test` and `base_parity` move to the nearest that the table allows; a given number
    of rows is rounded to whole cells. The plan's notes say so (docs/own-data.md, "Defaults").
    """

    m: int = option(
        DEFAULT_M, "Examples per prompt.", shown=f"{DEFAULT_M}, or what the table's cells can give"
    )
    epsilon: float | None = option(
        0.01, "Largest relative parity violation of the coreset; `none` for no limit."
    )
    until_decided: tuple[str, ...] = option(
        (),
        "Conditions such as `dp > 0.1`: ask until they are decided, or until n_test rows (`verdict`: until "
        "the DP gap's verdict can be told). Intervals then hold at every look.",
        VERDICT,
        flag="",
    )
    stopping: Literal["group-sequential", "confidence-sequence"] = option(
        "group-sequential",
        "Until decided: ten `group-sequential` looks up to --n-test, or a `confidence-sequence`, for asking "
        "without a known end.",
        VERDICT,
        shown="group-sequential; confidence-sequence where --max-cost alone ends the run",
    )
    n_test: int = option(
        _rows,
        "Test rows per repeat.",
        shown="200, at most 2,000 until decided, or the nearest number that the table allows",
    )
    base_parity: float | None = option(
        None,
        "Gap of the groups' base rates in the test rows, or `none`: rows as they fall.",
        shown="the task's own, or none where cells are too small",
        none=True,
    )
    repeats: int = option(1, "Repeat r draws its rows and its examples from seed + r.", ge=1)
    seed: int = option(0, "Seed of the first repeat.", ge=0)
    api: Api = option(
        "chat",
        "How the question is put: chat, or decisions or systemone to a decision model, which gives P(yes) "
        "and no text.",
        SERVICE,
    )
    template: str = option(
        _template,
        "Template set: default, decision, paper, decodingtrust, or a folder of your own.",
        shown="default; decision with another api than chat",
    )
    templates: tuple[str, ...] = option((), "Several template sets: each makes an arm.", flag="")
    orders: tuple[str, ...] = option(
        (),
        "Order of the examples: alternate, random, by-weight, given; each of several makes an arm.",
        shown="the strategy's own",
        flag="order",
    )
    weights: Literal["show", "hide"] = option("show", "show or hide the weights of the examples.")
    redraw: Literal["once", "per-row"] = option(
        "once", "Balanced examples drawn `once` a repeat, or anew `per-row`."
    )
    samples: int = option(
        1, "How many times to ask each prompt, to see how often the model agrees with itself.", ge=1
    )
    counterfactual: bool = option(False, "Ask again with the protected level changed (doubles the calls).")
    probe: tuple[Literal["names", "proxies"], ...] = option(
        (),
        "Ask again with first names of each group (`names`), or with the columns that tell the group "
        "exchanged (`proxies`).",
    )
    rows_per_request: int = option(
        1,
        "Put so many rows into one request as well, beside each row alone, to see what that changes.",
        ge=1,
        le=400,
    )
    threshold: float | str | None = option(
        None,
        "Answer yes from this P(yes) up, beside the answers as given: a number, `fit` (most accurate) or "
        "`base-rate` (as many yes as there are), both chosen on rows of the pool that are asked first "
        '(docs/protocol.md, "A threshold").',
    )
    threshold_rows: int | None = option(
        None, "Rows of the pool that this asks about.", shown="as many as test rows, at most 200", ge=2
    )
    consistency: bool = option(
        False,
        "Ask for the negation and a paraphrase in the same request, and count contradictions (not with the "
        "api chat).",
    )
    strategy_options: Mapping[str, Any] = option(
        dict, "KEY=VALUE for the strategies that take it (slots=equal); repeatable.", flag="option"
    )
    margin: float = option(
        0.05,
        "A gap within it does not matter: where the interval ends there, groups are equal within the margin.",
        VERDICT,
        ge=0,
        lt=1,
    )
    min_group: int = option(
        30, "Groups of fewer distinct rows are shown and not judged; 1 judges all.", VERDICT, ge=1
    )
    min_coverage: float = option(
        0.8, "Share of answers that must be read; below it, a warning (exit code 4 with --strict).", VERDICT,
        ge=0, le=1,
    )  # fmt: skip
    unread: Literal["worst", "as-no", "ignore"] = option("worst", UNREAD_HELP, VERDICT)
    cluster: str | None = option(
        None, "The column that names the person, where people have several rows.", VERDICT
    )
    weight: str | None = option(
        None,
        "The numeric column that says for how many a row stands, such as a survey's weight (adult: fnlwgt), "
        "or `none`.",
        VERDICT,
        shown="that of the task file, where there is one",
        none=True,
    )
    given: str | None = option(
        None, "The column within whose values parity is compared as well (Mantel-Haenszel).", VERDICT
    )
    assist: bool = option(
        False,
        "Values, intervals and verdicts also use the rows that were not asked about, by predictions of the "
        "model's answers to them (docs/statistics.md).",
        VERDICT,
    )
    against: str = option(
        "",
        "The arm that the others are compared with, or `all` for each with each.",
        VERDICT,
        shown="the first",
    )

    @field_validator("until_decided", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("threshold", mode="before")
    @classmethod
    def _read_threshold(cls, value: Any) -> Any:
        if value is None or value in FITTED:
            return value
        try:
            number = parse_finite(float(value) if isinstance(value, str) else value)
        except ValueError:
            number = None
        if number is None or not 0.0 <= number <= 1.0:
            raise ValueError(f"give a number from 0 to 1, 'fit' or 'base-rate', not {value!r}")
        return number

    @model_validator(mode="after")
    def _check_threshold(self) -> "Settings":
        fitted = self.threshold in FITTED
        if fitted and self.samples > 1:
            times = f"asks about rows of the pool once, not {self.samples} times"
            raise ValueError(f"threshold {self.threshold} {times}: give a number, or samples=1")
        if self.threshold_rows is not None and not fitted:
            raise ValueError("threshold_rows (--threshold-rows) is for a threshold of 'fit' or 'base-rate'")
        return self

    @model_validator(mode="after")
    def _check_until_decided(self) -> "Settings":
        if not self.until_decided:
            return self
        from fwc_llm.gates.condition import check_sequences

        check_sequences(self.until_decided)
        alone = {"repeats": 1, "samples": 1, "rows_per_request": 1, "threshold": None, "probe": ()}
        alone |= {"counterfactual": False, "consistency": False}
        if others := [name for name, usual in alone.items() if getattr(self, name) != usual]:
            why = "its intervals are of rows that are each asked once"
            raise ValueError(f"until_decided (--until-decided) does not go with {others[0]}: {why}")
        if self.cluster and self.stopping != "group-sequential":
            raise ValueError("a confidence sequence does not go with cluster: give the cap, --n-test")
        return self

    @property
    def wordings(self) -> tuple[str, ...]:
        """The template sets, one or several."""
        return self.templates or (self.template,)

    @property
    def questions(self) -> Literal["", "one", "several"]:
        """The questions that prompts hold apart from the input; see `Prompt`."""
        return "" if self.api == "chat" else "several" if self.consistency else "one"

    def as_json(self) -> dict[str, Any]:
        """The settings as they stand in run.json."""
        return self.model_dump(mode="json")
