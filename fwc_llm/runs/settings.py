"""`Settings`: everything that determines a run's questions and verdicts."""

from typing import Any, Literal, TypeAlias

from pydantic import field_validator, model_validator

from fwc_llm.errors import FwcError
from fwc_llm.models.client import STATED, AnswerFormat
from fwc_llm.options import SERVICE, UNREAD_HELP, VERDICT, Options, option
from fwc_llm.sanitize import Fields, Json, parse_finite
from fwc_llm.shots.base import DEFAULT_M

Api: TypeAlias = Literal["chat", "decisions", "systemone"]
DECISION_TEMPLATE = "decision"
FITTED = ("fit", "base-rate")  # thresholds that are chosen on rows of the pool
JUDGED = (
    "margin",
    "min_group",
    "unread",
    "cluster",
    "weight",
    "given",
    "against",
)  # options of verdicts


def _template(values: Fields) -> str:
    if values.get("api", "chat") == "chat":
        return "default"
    return DECISION_TEMPLATE


class Settings(Options):
    """Everything that determines what is asked; defaults: the paper's experiment.

    The defaults of `m`, `n_test` and `base_parity` are adjusted to what the table allows, and a
    given number of rows is rounded to whole cells. The plan's notes list these changes
    (docs/own-data.md, "Defaults"; docs/protocol.md).
    """

    m: int = option(
        DEFAULT_M,
        "Examples per prompt.",
        default_words=f"{DEFAULT_M}, or the nearest number that the cells allow",
    )
    epsilon: float | None = option(
        0.01, "Largest relative parity violation of the coreset; `none` for no limit."
    )
    n_test: int = option(
        200,
        "Test rows per repeat.",
        default_words="200, or the nearest number that the table allows",
    )
    base_parity: float | None = option(
        None,
        "Gap of the groups' base rates among test rows; `none`: unconstrained.",
        default_words="the task's, or none if cells are too small",
        none=True,
    )
    repeats: int = option(
        1, "Number of repeats; each draws new rows and examples.", ge=1
    )
    seed: int = option(0, "Seed of the first repeat.", ge=0)
    api: Api = option(
        "chat",
        "Protocol of the service; decisions and systemone are for decision models.",
        SERVICE,
    )
    answer_format: AnswerFormat = option(
        "word", "Answers: word, enforced json, or a stated probability of yes.", SERVICE
    )
    template: str = option(
        _template,
        "Template set (default, decision, paper, decodingtrust) or your own folder.",
        default_words="default; decision unless the api is chat",
    )
    templates: tuple[str, ...] = option(
        (), "Several template sets: each makes an arm.", flag=""
    )
    samples: int = option(
        1, "Requests per prompt, to measure the model's self-agreement.", ge=1
    )
    counterfactual: bool = option(
        False, "Ask each row again with every other protected level (more requests)."
    )
    probe: tuple[Literal["names"], ...] = option(
        (), "Ask again with first `names` of each group (more requests)."
    )
    threshold: float | str | None = option(
        None,
        "Also score answers thresholded at this P(yes): number, `fit` or `base-rate`.",
    )
    strategy_options: Fields = option(
        dict, "Options of strategies, such as slots=equal.", flag="option"
    )
    margin: float = option(
        0.05, "Largest negligible gap, as a share.", VERDICT, ge=0, lt=1
    )
    min_group: int = option(
        30, "Smallest group to get a verdict, in distinct rows.", VERDICT, ge=1
    )
    min_coverage: float = option(
        0.8,
        "Warn below this share of parsed replies (--strict: exit code 4).",
        VERDICT,
        ge=0,
        le=1,
    )
    unread: Literal["worst", "as-no", "ignore"] = option("worst", UNREAD_HELP, VERDICT)
    cluster: str | None = option(
        None, "Column that identifies people with several rows.", VERDICT
    )
    weight: str | None = option(
        None,
        "Numeric column of sampling weights (adult: fnlwgt), or `none`.",
        VERDICT,
        default_words="the task file's, if any",
        none=True,
    )
    given: str | None = option(
        None, "Column of strata for conditional parity (Mantel-Haenszel).", VERDICT
    )
    assist: bool = option(
        False,
        "Also use rows not asked about, by predicted answers (prediction-powered estimates).",
        VERDICT,
    )
    against: str = option(
        "",
        "Arm to compare the others with, or `all` for all pairs.",
        VERDICT,
        default_words="the first arm",
    )

    @field_validator("templates", "probe", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if isinstance(value, str):
            return (value,)
        return value

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
            raise ValueError(
                f"give a number from 0 to 1, 'fit' or 'base-rate', not {value!r}"
            )
        return number

    @model_validator(mode="after")
    def _check_threshold(self) -> "Settings":
        fitted = self.threshold in FITTED
        if fitted and self.samples > 1:
            times = f"asks about rows of the pool once, not {self.samples} times"
            raise ValueError(
                f"threshold {self.threshold} {times}: give a number, or samples=1"
            )
        if self.assist and self.threshold is not None:
            raise ValueError("assist takes no threshold: leave one out")
        return self

    @property
    def wordings(self) -> tuple[str, ...]:
        """The names or folders of the template sets: `templates`, else `template` alone."""
        return self.templates or (self.template,)

    @property
    def question_apart(self) -> bool:
        """Whether the question is a message of its own, as decision models need it."""
        return self.api != "chat"

    @property
    def stated(self) -> bool:
        """Whether the model states P(yes) in its reply."""
        return self.answer_format == STATED

    def check_logprobs(self, logprobs: bool) -> None:
        """`FwcError` if P(yes) has two sources: log-probabilities and the reply's text."""
        if self.stated and logprobs:
            raise FwcError(
                "--logprobs gives P(yes) of words, and with --answer-format probability the reply "
                "states it: leave out one of the two"
            )

    def as_json(self) -> Json:
        """The settings as in run.json."""
        return self.model_dump(mode="json")
