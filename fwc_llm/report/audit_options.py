"""`AuditOptions`: the columns and rules of an audit, for the commands `audit` and `monitor`."""

from typing import Literal

from fwc_llm.options import OUTPUT, VERDICT, Options, option
from fwc_llm.sanitize import Fields, Texts
from fwc_llm.taskfile import About

FURTHER = "Further columns"
_COLUMN = "COLUMN"
_VALUES = "VALUES"


class AuditOptions(Options):
    """The options of an audit, as in its document: columns, rules, and [about]."""

    protected: Texts = option(
        ...,
        'Protected columns, comma-separated ("a, b" in quotes), audited singly and crossed.',
        "",
    )
    answer: str | None = option(
        None,
        "Column of predictions; empty cells are unparsed.",
        "",
        default_words="yes where --p-yes reaches the threshold",
        metavar=_COLUMN,
    )
    reply: str | None = option(
        None,
        "Column of a model's replies, to parse instead of --answer.",
        "",
        metavar=_COLUMN,
    )
    label: str | None = option(
        None,
        "Column of true outcomes.",
        "",
        default_words="label, if there is such a column; else only rates of yes are audited",
        metavar=_COLUMN,
    )
    positive: str | None = option(
        None,
        "Values that mean yes, comma-separated.",
        "",
        default_words="the usual meaning: yes, 1, approved …",
        metavar=_VALUES,
    )
    positive_answer: str | None = option(
        None,
        "Values that mean yes among answers.",
        "",
        default_words="--positive",
        metavar=_VALUES,
    )
    positive_label: str | None = option(
        None,
        "Values that mean yes in --label.",
        "",
        default_words="--positive",
        metavar=_VALUES,
    )
    negative: str | None = option(
        None,
        "Values that mean no, comma-separated; '' is an empty cell.",
        "",
        metavar=_VALUES,
    )
    refer: str | None = option(
        None,
        "Values of a third answer, by which a person decides, comma-separated.",
        "",
        metavar=_VALUES,
    )
    others: Literal["no", "drop"] | None = option(
        None, "Treat other values as no, or drop their rows.", ""
    )
    above: float | None = option(
        None, "Number above which a numeric --answer means yes.", ""
    )
    unknown: Texts = option(
        (),
        "Further words for an unknown category, comma-separated.",
        "",
        metavar="WORDS",
    )
    arm: str | None = option(
        None,
        "Column of arms, such as models or prompts.",
        FURTHER,
        default_words="arm, if there is such a column",
        metavar=_COLUMN,
    )
    repeat: str | None = option(
        None,
        "Column of repeat numbers.",
        FURTHER,
        default_words="repeat, if there is such a column",
        metavar=_COLUMN,
    )
    row: str | None = option(
        None,
        "Column of row ids.",
        FURTHER,
        default_words="row, if there is such a column; else every line is a row",
        metavar=_COLUMN,
    )
    key: str | None = option(
        None,
        "Column of row ids in FILE and --population.",
        FURTHER,
        default_words="--row",
        metavar=_COLUMN,
    )
    p_yes: str | None = option(
        None, "Column of P(yes), for calibration and thresholds.", "", metavar=_COLUMN
    )
    score: str | None = option(
        None,
        "Column of an unbounded score; scoring rates count values above its median.",
        FURTHER,
        metavar=_COLUMN,
    )
    threshold: float | None = option(
        None,
        "Smallest P(yes) that means yes, without --answer.",
        "",
        default_words="0.5",
    )
    examples: str | None = option(
        None,
        "Column that identifies the prompt's set of examples.",
        FURTHER,
        metavar=_COLUMN,
    )
    missing: Literal["refuse", "drop"] = option(
        "refuse", "Rows without label, weight or person: refuse, or drop.", VERDICT
    )
    sheet: str = option(
        "", "Sheet of an Excel file, by name or number.", "", default_words="the first"
    )
    skip: int = option(0, "Number of lines above the header to skip.", "", ge=0)
    comment: str = option(
        "", "Prefix of comment lines, such as #; they are skipped.", ""
    )
    small: Literal["keep", "exclude"] | None = option(
        None,
        "In --ll144, `keep` or `exclude` categories under 2 %.",
        OUTPUT,
        default_words="keep",
    )
    because: str | None = option(
        None, "Reason for --small exclude.", OUTPUT, metavar="TEXT"
    )
    about: About = option(About, "Statements about data and tool.", flag="")
    fail_if: Texts = option((), "Conditions of gates.", flag="")
    settings: Fields = option(dict, "Options of verdicts.", flag="")
