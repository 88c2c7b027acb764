"""The selectors' benchmark, on a part of its table: its numbers, its verdict, its report."""

import pytest

from evals.bench import selectors
from evals.bench.selectors_peers import peers


@pytest.mark.slow
def test_fwc_is_closest_on_a_small_reference_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "N", 800)
    monkeypatch.setattr(selectors, "P", 8)
    monkeypatch.setattr(selectors, "M", 60)
    runs = list(selectors.reference(range(1)))
    assert [run["method"] for run in runs] == list(selectors.KNOWN)
    assert min(runs, key=lambda run: run["W1"])["method"] == "FWC ε 0.1"
    table = selectors.summary(runs)
    assert table["k-medoids (swap) L1"]["W1"] < table["uniform"]["W1"]
    assert table["k-means"]["clustering"] == min(row["clustering"] for row in table.values())
    result = {
        "command": "c", "machine": "m", "seeds": 1, "fwc_is_closest": True, "reference": table,
        "scale": [{"strategy": "fwc", "m": 16, "error": "no"}],
    }  # fmt: skip
    result["peers"] = list(peers(quick=True))
    for row in result["peers"]:
        if "peer" in row:
            assert row["loss"] == pytest.approx(row["peer_loss"], rel=0.05)
    text = selectors.report(result)
    assert "| FairWASP | 2,000 |" in text
    assert "for every seed: yes" in text
    assert "| fwc | 16 | no | |" in text


def test_the_verdict_can_be_no() -> None:
    runs = [
        {"method": "k-means", "seed": 0, "W1": 1.0, "violation": 0.0},
        *({"method": f"FWC ε {e:g}", "seed": 0, "W1": 0.9, "violation": 2 * e} for e in selectors.EPSILONS),
    ]
    assert not selectors.fwc_is_closest(runs)
    for run in runs:
        run["violation"] = 0.0
    assert selectors.fwc_is_closest(runs)
    runs[0]["W1"] = 0.5
    assert not selectors.fwc_is_closest(runs)
