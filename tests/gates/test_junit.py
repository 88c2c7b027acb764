"""JUnit XML that any parser reads, whatever the names of arms and runs."""

from xml.etree import ElementTree

import pytest

from fwc_llm.gates import Check
from fwc_llm.gates.decide import Outcome
from fwc_llm.gates.junit import Suite, junit_xml

EVIL = "]]><x a=\"'&amp;\x00\x08\x1b[31m\ud800\ufffe‮\n</testcase>"
CHECKS = [
    Check("dp > 0.1", "failed", EVIL),
    Check(EVIL, "passed", "well"),
    Check("eo > 1", "undecided", "why"),
]


@pytest.mark.parametrize(
    ("undecided", "kind"), [("undecided", "error"), ("failed", "failure"), ("passed", "skipped")]
)
def test_hostile_names_stay_text_and_counts_agree(undecided: Outcome, kind: str) -> None:
    text = junit_xml([Suite(EVIL, CHECKS), Suite("other", CHECKS[1:2])], undecided)
    root = ElementTree.fromstring(text.encode("utf-8"))
    assert root.tag == "testsuites"
    for suite in [root, *root]:
        cases = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(cases)
        for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == len(list(suite.iter(element)))
    first, second, third = root[0]
    assert [child.tag for child in first] == ["failure"]
    assert first[0].attrib["message"].startswith("]]><x a=\"'&amp;\N{REPLACEMENT CHARACTER}")
    assert second.attrib["name"].endswith("</testcase>")
    assert [child.tag for child in second] == ["system-out"]
    assert [child.tag for child in third] == [kind]
    assert root[1].attrib["name"] == "other"
