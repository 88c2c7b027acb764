"""Several models in one command: one folder each, one limit of cost, one report."""

import json
from pathlib import Path

import pytest

from fwc_llm.runs.folder import answered_requests
from tests.command import Run
from tests.faults.loopback import Service, refusal, serve_in_thread

SMALL = "eval --task census --shots zero,random --m 2 --n-test 8"
PRICE = "{ input = 100.0, output = 100.0 }"
PRICES = f'date = 2026-01-01\nsource = "made up"\n[models]\na = {PRICE}\nb = {PRICE}\n'


def asked(service: Service, model: str) -> int:
    return [body["model"] for body in service.bodies].count(model)


@pytest.mark.slow
def test_all_models_are_asked_and_one_that_is_rejected_is_asked_again(
    fwc: Run, tmp_path: Path
) -> None:
    out = tmp_path / "three"
    unknown = {"b/c"}
    missing = refusal(404, "The model does not exist", "model_not_found")
    service = Service(lambda body: missing if body["model"] in unknown else "yes")
    with serve_in_thread(service) as url:
        command = f"{SMALL} --base-url {url}/v1 -o {out} --model"
        first = fwc(command, "a,b/c,d", code=3)
        assert "incomplete: b/c" in first.line
        assert "does not know the model 'b/c'" in first.err
        assert asked(service, "a") == asked(service, "d") == 16
        assert "Cannot say: a, d." in first.out
        assert [answered_requests(out / name) for name in ("a", "b_c", "d")] == [
            16,
            0,
            16,
        ]
        unknown.clear()
        again = fwc(command, "a,b/c,d", code=0)
        assert asked(service, "a") == 16
        assert "16 of 16 answered, nothing to ask" in again.err
        assert answered_requests(out / "b_c") == 16
        assert "is for a, b/c, d" in fwc(command, "a,x", code=2).line
        assert "runs of several models" in fwc(command, "a", code=2).line
        fwc("eval", out / "experiment.toml", "-o", tmp_path / "again", code=0)
    for name in ("a", "b_c", "d"):
        for file in ("answers.csv", "results.json"):
            assert (out / name / file).read_bytes() == (
                tmp_path / "again" / name / file
            ).read_bytes()
    fwc("rescore", out, code=0)
    fwc("report", out, code=0)
    page = (out / "report.html").read_text()
    assert all(f">{model}</" in page for model in ("a", "b/c", "d"))
    fwc("compare", out / "a", out / "b_c", code=0)
    each = fwc("compare", out, tmp_path / "again", code=0).out
    assert each.count("the same answers as") == 3
    one = fwc("compare", out, out / "a", "--json", code=0).out
    assert len(json.loads(one)["comparisons"]) == 3


@pytest.mark.slow
def test_the_limit_of_cost_is_that_of_all_models(fwc: Run, tmp_path: Path) -> None:
    """A reply costs a cent: with 30 cents the second model is not asked to the end."""
    (tmp_path / "prices.toml").write_text(PRICES)
    service = Service(lambda body: "yes")
    with serve_in_thread(service) as url:
        prices = tmp_path / "prices.toml"
        command = f"{SMALL} --base-url {url}/v1 --prices {prices} --max-cost"
        more = f"--model a,b,surrogate -o {tmp_path / 'run'} --concurrency 1"
        outcome = fwc(f"{command} 0.3 {more}", code=4)
        assert "stopped before --max-cost" in outcome.line
        assert "$0.3" in outcome.line
        assert 0 < asked(service, "b") < 16
        assert asked(service, "surrogate") == 16
        fwc(f"{command} 100 {more}", code=0)
        assert asked(service, "a") == asked(service, "b") == 16
        unknown = f"{command} 1 --model a,unheard-of -o {tmp_path / 'other'}"
        assert "no price of unheard-of" in fwc(unknown, code=2).line
    assert not (tmp_path / "other").exists()
