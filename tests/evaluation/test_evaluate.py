"""The whole line, from a table to numbers on disk, against a real HTTP service on loopback."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm import Client, Result, Settings, Task, evaluate, select_shots
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.splits import draw_split
from fwc_llm.shots import save_shots
from fwc_llm.tasks import census_task
from tests.command import read_json
from tests.faults.loopback import (
    HttpReply,
    HttpRequest,
    Service,
    completion,
    serve_in_thread,
    with_logprobs,
)
from tests.refusals import refused
from tests.wordings import in_german

Served = tuple[Service, str]


def married(body: Any) -> str:
    """Yes exactly for the married, so that every number can be worked out beforehand."""
    if "Married-civ-spouse" in body["messages"][-1]["content"]:
        return "Yes."
    return "no"


@pytest.fixture
def service() -> Iterator[Served]:
    handler = Service(married)
    with serve_in_thread(handler) as url:
        yield handler, f"{url}/v1"


def run(
    task: Task, url: str, out: Path, model: str = "my-model", **options: Any
) -> Result:
    settings: dict[str, Any] = {
        "arms": ("zero", "balanced"),
        "n_test": 16,
        "m": 4,
        **options,
    }
    return evaluate(task, model, base_url=url, out=out, **settings)


@pytest.mark.slow
def test_the_numbers_follow_the_answers(
    adult: Task, service: Served, out: Path
) -> None:
    result = run(adult, service[1], out, repeats=2, seed=5)
    for arm in result.arms:
        both = []
        for repeat in range(2):
            measured = {
                metric: result.records.per_repeat(metric, arm)[repeat]
                for metric in ("accuracy", "dp_gap")
            }
            rows = draw_split(adult, 16, 0.5, 5 + repeat).test
            yes = (rows["marital-status"] == "Married-civ-spouse").to_numpy()
            male = adult.sensitive(rows) == "Male"
            assert measured["accuracy"] == pytest.approx(
                np.mean(yes == adult.labels(rows))
            )
            gap = abs(yes[male].mean() - yes[~male].mean())
            assert measured["dp_gap"] == pytest.approx(gap)
            both.append(measured["accuracy"])
        assert result.records.of("accuracy", arm).value == pytest.approx(np.mean(both))
        assert result.records.of("coverage", arm).value == 1.0


def test_the_folder_holds_the_whole_run(
    adult: Task, service: Served, out: Path
) -> None:
    run(adult, service[1], out)
    described = read_json(out / "run.json")
    assert described["fingerprint"] == adult.fingerprint
    assert (described["settings"]["m"], described["simulated"]) == (4, False)
    rows = {one["group"]: (one["no"], one["yes"]) for one in described["population"]}
    assert rows == {"Female": (4356, 557), "Male": (7004, 3143)}
    assert {path.name for path in (out / "shots").iterdir()} == {
        "zero-0.json",
        "balanced-0.json",
    }
    prompt = read_json(out / "prompts" / "balanced.json")
    assert prompt in [body["messages"] for body in service[0].bodies]
    results = read_json(out / "results.json")
    assert results["usage"]["prompt_tokens"] == 32 * 100


def test_a_folder_of_something_else_is_refused(
    adult: Task, service: Served, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with refused("and no run"):
        run(adult, service[1], tmp_path / "other")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]


def test_prompts_beyond_the_context_are_refused(
    adult: Task, service: Served, out: Path
) -> None:
    with refused(r"arm 'random'.*tokens.*gpt-4\b.*fewer examples"):
        run(adult, service[1], out, "gpt-4", arms=("zero", "random"), m=100)
    assert not out.exists()
    assert not service[0].bodies


def test_saved_shots_leave_equal_test_rows_out(
    adult: Task, service: Served, tmp_path: Path
) -> None:
    twin = draw_split(adult, 16, 0.5, 0).test.iloc[[0]]
    row = str(twin.index[0])
    save_shots(
        select_shots(adult, "ids", m=1, pool=twin, rows=[row]), tmp_path / "chosen.json"
    )
    assert row not in adult.pool().index
    result = run(
        adult,
        service[1],
        tmp_path / "run",
        arms=("zero", str(tmp_path / "chosen.json")),
    )
    assert set(result.answers()["arm"]) == {"zero", "chosen"}
    assert row not in set(result.answers()["row"])


def test_a_counterfactual_changes_the_level_alone(
    adult: Task, service: Served, out: Path
) -> None:
    result = run(adult, service[1], out, arms=("zero",), counterfactual=True)
    assert set(result.answers()["variant"]) == {
        "",
        "counterfactual:Female",
        "counterfactual:Male",
    }
    assert len(service[0].bodies) == 32
    assert result.records.of("accuracy", "zero").n == 16
    texts = [body["messages"][-1]["content"] for body in service[0].bodies]
    swapped = {
        text.replace("sex: Male", "sex: X").replace("sex: Female", "sex: X")
        for text in texts
    }
    assert len(swapped) <= 16
    assert len(set(texts)) == 2 * len(swapped)


@pytest.mark.parametrize("template", ["default", "decodingtrust", "paper"])
def test_a_tasks_words_are_asked_for_shown_and_read(
    template: str, tmp_path: Path
) -> None:
    """P(yes) and models that read no prompt give what they give with yes and no."""
    census = census_task(300, 400)
    in_words = in_german(census)
    options: dict[str, Any] = {
        "arms": ("zero", "random"),
        "n_test": 12,
        "m": 4,
        "template": template,
    }
    answers = []
    for task in (census, in_words):
        result = evaluate(
            task, "surrogate", out=tmp_path / str(len(answers)), **options
        )
        answers.append(result.answers()[["arm", "row", "variant", "answer", "p_yes"]])
        assert set(answers[-1]["answer"]) <= {"yes", "no"}
    assert answers[0].equals(answers[1])
    prompt = (tmp_path / "1" / "prompts" / "random.json").read_text().lower()
    assert set(re.findall(r"\b(?:yes|no|bewilligt|abgelehnt)\b", prompt)) == {
        "bewilligt",
        "abgelehnt",
    }
    described = read_json(tmp_path / "1" / "run.json")
    assert described["words"] == {"yes": ["bewilligt"], "no": ["abgelehnt"]}
    if template == "default":
        for name, model in (
            ("baseline", "baseline"),
            ("function", lambda messages: 0.75),
        ):
            read = evaluate(in_words, model, out=tmp_path / name, **options).answers()
            assert set(read["answer"]) <= {"yes", "no"}
            assert read["p_yes"].notna().all()


def test_settings_are_values_and_names_come_first(
    adult: Task, service: Served, tmp_path: Path
) -> None:
    settings = Settings(n_test=16, m=8, base_parity=0.5, seed=3, template="paper")
    client = Client(base_url=service[1], params={"temperature": 0.5}, max_tokens=9)
    # 16 is what m is by default: given by name it counts, and what is not given stays the value's.
    for m, most, named in ((8, 9, {}), (16, 20, {"m": 16, "max_tokens": None})):
        options = {"settings": settings, "client": client, **named}
        result = evaluate(
            adult, "my-model", ("zero", "balanced"), out=tmp_path / f"{m}", **options
        )
        described = RunFolder(result.folder).describe()
        assert described["settings"] == {**settings.as_json(), "m": m}
        assert described["parameters"]["temperature"] == 0.5
        assert described["parameters"]["max_tokens"] == most


def test_callbacks_hear_every_step(
    adult: Task, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []
    states: list[int] = []
    evaluate(
        adult,
        Surrogate(),
        ("random",),
        n_test=8,
        m=4,
        out=out,
        on_step=steps.append,
        on_progress=lambda state: states.append(state.done),
    )
    assert steps == ["choosing examples: random, repeat 1 of 1"]
    assert states[-1] == 8
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, "repeats.*0"),
        ({"arms": ()}, "no arm"),
        ({"arms": ("zero", "zero")}, "named twice"),
        ({"arms": ("balanced@sideways",)}, "sideways"),
        ({"templates": 3}, "templates.*tuple"),
        ({"tempalte": "paper"}, "did you mean 'template'"),
        ({"templates": ("default", "default")}, "named twice"),
        ({"m": "many"}, "m: .*many"),
    ],
)
def test_bad_input_makes_no_folder(
    adult: Task, out: Path, options: Any, message: str
) -> None:
    with refused(message):
        run(adult, "http://127.0.0.1:9/v1", out, **options)
    assert not out.exists()


def ask_26(url: str, out: Path, **options: Any) -> Result:
    """A run of 26 people of a small census, zero-shot."""
    task = census_task(600, 300)
    settings = {"n_test": 26, "base_parity": None, "out": out, **options}
    return evaluate(task, "m", ("zero",), base_url=f"{url}/v1", **settings)


def test_p_yes_against_the_answer_is_unknown_at_temperature_0(tmp_path: Path) -> None:
    """The service says Yes, and that No was likelier; with a temperature, that may be."""
    body = with_logprobs(completion("Yes"), ("Yes", {"No": 0.9, "Yes": 0.1}))
    with serve_in_thread(lambda request: HttpReply(body)) as url:
        for temperature, unknown in ((0, 26), (1, 0)):
            options = {"logprobs": True, "params": {"temperature": temperature}}
            result = ask_26(url, tmp_path / str(temperature), **options)
            assert result.data.get("p_yes_contradicts", 0) == unknown
            assert result.answers()["p_yes"].isna().sum() == unknown


@pytest.mark.parametrize("finish", ["unheard-of", ""])
def test_a_reply_that_the_service_broke_off_is_none(
    finish: str, tmp_path: Path
) -> None:
    """Half of the replies end by a word that nobody knows: they are asked again once, and say
    nothing.
    """
    asked: Counter[str] = Counter()

    def service(request: HttpRequest) -> HttpReply:
        text = str(request.json()["messages"][-1]["content"])
        asked[text] += 1
        body = completion("No")
        if "Female" in text:
            body["choices"][0]["finish_reason"] = finish
        return HttpReply(body)

    with serve_in_thread(service) as url:
        result = ask_26(url, tmp_path)
    answers = result.answers()
    women = answers["group"] == "Female"
    if not finish:  # a blank is none: the reply is whole
        assert result.unanswered == 0
        return
    assert result.unanswered == women.sum() > 5
    assert set(answers["reason"][women]) == {"unfinished"}
    assert set(answers["answer"][~women]) == {"no"}
    assert finish in result.data["no_reply"][0]["reason"]
    assert {asked[text] for text in asked if "Female" in text} == {2}
