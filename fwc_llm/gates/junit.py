"""Checks as JUnit XML, which CI services show as tests."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from fwc_llm.gates.decide import Check, Outcome

# What XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SUITE = "fwc-llm gate"


@dataclass(frozen=True)
class Suite:
    """The checks of one run, by its name."""

    name: str
    checks: Sequence[Check]


def junit_xml(suites: Sequence[Suite], undecided: Outcome = "undecided") -> str:
    """Return the checks as JUnit XML, a suite a run.

    `undecided` says what an undecided check counts as: "failed" is a failure, "passed" is skipped, else it is
    an error, as it ends a run with an exit code of its own.
    """
    root = ElementTree.Element("testsuites", {"name": _SUITE, **_counts(suites, undecided)})
    for suite in suites:
        below = {"name": _legal(suite.name), **_counts([suite], undecided)}
        of = ElementTree.SubElement(root, "testsuite", below)
        for check in suite.checks:
            case = ElementTree.SubElement(
                of,
                "testcase",
                {"classname": _legal(suite.name), "name": _legal(check.condition), "time": "0"},
            )
            if (kind := _kind(check, undecided)) is not None:
                said = {"message": _legal(check.reason)}
                if kind != "skipped":
                    said["type"] = check.outcome
                ElementTree.SubElement(case, kind, said).text = _legal(check.reason)
            else:
                ElementTree.SubElement(case, "system-out").text = _legal(check.reason)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _kind(check: Check, undecided: Outcome) -> str | None:
    """The element that says what became of a check; None for one that passed."""
    if check.outcome != "undecided":
        return "failure" if check.outcome == "failed" else None
    return {"failed": "failure", "passed": "skipped"}.get(undecided, "error")


def _counts(suites: Sequence[Suite], undecided: Outcome) -> dict[str, str]:
    kinds = [_kind(check, undecided) for suite in suites for check in suite.checks]
    names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {"tests": len(kinds), **{name: kinds.count(kind) for name, kind in names.items()}}
    return {name: str(count) for name, count in counts.items()} | {"time": "0"}


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
