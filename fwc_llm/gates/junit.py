"""Checks as JUnit XML, which CI services show as tests."""

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from fwc_llm.gates.decide import Check, Outcome

# What XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SUITE = "fwc-llm gate"


def junit_xml(suites: Mapping[str, Sequence[Check]], undecided: Outcome = "undecided") -> str:
    """Return the checks of runs, by their names, as JUnit XML, a suite a run.

    `undecided` says what an undecided check counts as: "failed" is a failure, "passed" is skipped, else it is
    an error, as it ends a run with an exit code of its own.
    """
    kinds = {"failed": "failure", "undecided": {"failed": "failure", "passed": "skipped"}.get(undecided)}

    def counts(checks: Sequence[Check]) -> dict[str, str]:
        outcomes = [kinds.get(check.outcome, "passed") or "error" for check in checks]
        names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        return {
            "tests": f"{len(outcomes)}",
            **{n: f"{outcomes.count(k)}" for n, k in names.items()},
            "time": "0",
        }

    everything = [check for checks in suites.values() for check in checks]
    root = ElementTree.Element("testsuites", {"name": _SUITE, **counts(everything)})
    for name, checks in ((_legal(name), checks) for name, checks in suites.items()):
        of = ElementTree.SubElement(root, "testsuite", {"name": name, **counts(checks)})
        for check in checks:
            about = {"classname": name, "name": _legal(check.condition), "time": "0"}
            case, reason = ElementTree.SubElement(of, "testcase", about), _legal(check.reason)
            kind = kinds.get(check.outcome, "system-out") or "error"
            attributes = {} if kind == "system-out" else {"message": reason}
            attributes |= {"type": check.outcome} if kind in {"failure", "error"} else {}
            ElementTree.SubElement(case, kind, attributes).text = reason
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
