"""A run whose replies hold no answer stops after a dozen, keeps what came, and names a remedy."""

from itertools import cycle
from math import nan
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import Result, audit, evaluate
from fwc_llm.notices import RunWarning
from fwc_llm.runs.execute import FIRST, UnreadError
from fwc_llm.tasks import census_task
from tests.command import Run
from tests.faults.loopback import (
    HttpReply,
    Service,
    completion,
    refusal,
    serve_in_thread,
)
from tests.refusals import refused
from tests.wordings import in_german

CENSUS = census_task(600, 300)
SMALL: Any = {"n_test": 40, "base_parity": None, "progress": False}


def ask(service: Service, out: Path, task: Any = CENSUS, **options: Any) -> Result:
    """A run of an arm whose service answers so."""
    with serve_in_thread(service) as url:
        asked = {**SMALL, "arms": ("zero",), "base_url": f"{url}/v1", **options}
        return evaluate(task, "some-model", out=out, **asked)


def short(body: Any) -> Any:
    """A reasoning model: without room there is no text."""
    spent = completion(None)
    spent["choices"][0]["finish_reason"] = "length"
    return "Yes" if body["max_tokens"] >= 2000 else HttpReply(spent)


def chatty(body: Any) -> str:
    return (
        '{"answer": "no"}'
        if "response_format" in body
        else "Well,\n that \x1b[2Jdepends " + "on it " * 90
    )


@pytest.mark.parametrize(
    ("answer", "remedy", "option", "concurrency"),
    [
        (short, {"max_tokens": 2000}, "max_tokens=2000", 8),
        (chatty, {"answer_format": "json"}, "answer_format=.json", 96),
    ],
)
def test_the_remedy_is_named_and_helps(
    answer: Any,
    remedy: dict[str, Any],
    option: str,
    concurrency: int,
    tmp_path: Path,
    out: Path,
) -> None:
    service = Service(answer)
    both: Any = {"arms": ("zero", "balanced"), "concurrency": concurrency}
    with serve_in_thread(service) as url:
        both["base_url"] = f"{url}/v1"
        for _ in range(2):  # the second time nothing is asked
            with pytest.raises(
                UnreadError, match=rf"the first {FIRST} replies of .*{option}"
            ) as caught:
                evaluate(CENSUS, "some-model", out=out, **SMALL, **both)
            assert caught.value.exit_code == 3
            assert len(service.bodies) == FIRST * (1 + (concurrency > 90))
            assert len(str(caught.value)) < 600
            assert "\x1b" not in str(caught.value)
        with refused(r"a new out folder|holds another run"):
            evaluate(CENSUS, "some-model", out=out, **SMALL, **both, **remedy)
    result = ask(service, tmp_path / "remedied", arms=both["arms"], **remedy)
    for arm in result.arms:
        assert result.records.of("coverage", arm).value == 1.0


def test_refusals_and_filters_are_findings_and_the_watch_can_be_left_out(
    tmp_path: Path,
) -> None:
    filtered = refusal(400, "x", "content_filter")
    for answer, options, reason in (
        (lambda body: "I'm sorry, I can't help with that.", {}, "refused"),
        (lambda body: filtered, {}, "filtered"),
        (chatty, {"no_watch": True}, "other"),
    ):
        service = Service(answer)
        result = ask(service, tmp_path / reason, **options)
        assert set(result.answers()["reason"]) == {reason}
        assert len(service.bodies) == 40  # asked once each


def test_one_answer_among_the_first_is_enough(tmp_path: Path) -> None:
    service = Service(lambda body: "Yes" if len(service.bodies) == FIRST - 1 else "Hm.")
    result = ask(service, tmp_path, concurrency=1)
    assert result.records.of("coverage", "zero").value == 1 / 40


def test_a_low_coverage_is_said_first_and_strict_ends_with_4(
    fwc: Run, tmp_path: Path, out: Path
) -> None:
    service = Service(lambda body: "Hm." if len(service.bodies) % 3 else "Yes")
    with serve_in_thread(service) as url:
        words = (
            f"eval --task census --model some-model --base-url {url}/v1 --shots zero"
        )
        words += f" --n-test 60 --concurrency 1 --out {out}"
        done = fwc(words, code=0)
        assert "Only 33.3 % of the questions of zero" in done.out.splitlines()[1]
        assert "Only 33.3 % of" in fwc(words, "--strict", code=4).line
        assert "Only" not in fwc(f"{words} --strict --set min_coverage=0.3", code=0).out
    unread = "ost frequent among the replies without an answer: 40 times “Hm.”. Remedy: try another"
    assert unread in " ".join(done.err.split())
    for suffix in ("md", "html"):
        fwc("report", out, "-o", tmp_path / f"page.{suffix}", code=0)
        assert unread in (tmp_path / f"page.{suffix}").read_text()
    assert len(service.bodies) == 60


def test_lost_requests_are_left_out_and_no_interval_allows_for_them(
    tmp_path: Path,
) -> None:
    shares = cycle([0.8, 0.3, 0.6, nan])
    options: Any = {**SMALL, "out": tmp_path / "run", "concurrency": 1}
    result = evaluate(CENSUS, lambda _: next(shares), ("zero",), **options)
    (arm,) = result.run.statistics.arms
    assert (arm.unanswered, arm.unread) == (10, 0)
    answers = result.answers()
    received = audit(answers[answers["reason"] != "error"]).records
    for metric in ("accuracy", "dp_gap"):
        own, of_received = (of.of(metric, "zero") for of in (result.records, received))
        assert (own.value, own.ends) == (of_received.value, of_received.ends)
    page = result.report(tmp_path / "page.md").read_text()
    told = "Requests without a reply: zero 10; they are left out"
    coverage = "Only 75.0 % of the questions of zero have an answer that could be read"
    assert f"{coverage} (below 80 %). {told}" in page
    assert page.count(told) == 3
    assert "each is a yes or a no" not in page


def test_a_service_that_refuses_json_ends_the_run_and_one_that_ignores_it_is_named(
    tmp_path: Path,
) -> None:
    no_form = refusal(400, "no", "unsupported_parameter", param="response_format")
    asked: Any = {"answer_format": "json", "concurrency": 1}
    with refused(r"'response_format'.*answer_format"):
        ask(Service(lambda body: no_form), tmp_path / "refuses", **asked)
    with pytest.warns(RunWarning, match="does not keep to answer_format"):
        ask(Service(lambda body: "No"), tmp_path / "ignores", **asked)


def test_a_threshold_needs_probabilities(tmp_path: Path) -> None:
    service = Service(lambda body: "No")
    with pytest.raises(UnreadError, match=r"12 without the P\(yes\).*leave thresh"):
        ask(service, tmp_path, threshold=0.3)
    assert len(service.bodies) == FIRST


def test_json_is_in_the_words_of_the_task(tmp_path: Path) -> None:
    service = Service(
        lambda body: '{"answer": "bewilligt"}' if "response_format" in body else "nein"
    )
    asked: Any = {"n_test": 10, "answer_format": "json"}
    result = ask(service, tmp_path, in_german(CENSUS), **asked)
    forms = [body["response_format"] for body in service.bodies]
    assert len(forms) == 10
    answer = forms[0]["json_schema"]["schema"]["properties"]["answer"]
    assert answer["enum"] == ["bewilligt", "abgelehnt"]
    assert set(result.answers()["answer"]) == {"yes"}
