"""--no-rows and --figures, where they are options."""

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BLOCK = '<script type="application/json">'
CSV = "sex,said,was\n" + "f,yes,no\nm,no,no\nm,yes,yes\nf,no,yes\n" * 20
Fwc = Callable[..., Any]


@pytest.mark.slow
def test_a_run_without_rows_has_none_in_any_report(fwc: Fwc, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asked = ("eval", "--task", "census", "--model", "surrogate", "--shots", "zero", "--n-test", 16, "--out")
    assert fwc(*asked, run, "--no-rows").code == 0
    assert tomllib.loads((run / "experiment.toml").read_text(encoding="utf-8"))["no-rows"] is True
    assert fwc("report", run).code == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert BLOCK not in page
    assert "holds the rows" not in page
    assert "script-src 'none'" in page
    refused = fwc(*asked, tmp_path / "other")
    assert refused.code == 0
    refused = fwc(
        *asked, tmp_path / "other", "--no-rows"
    )  # begun with them: it cannot be taken back silently
    assert refused.code == 2
    assert "no_rows" in refused.line
    assert fwc("report", tmp_path / "other", "-o", tmp_path / "a.html").code == 0
    with_rows = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert with_rows.count(BLOCK) == 1
    assert "This page holds the rows themselves (16, with prompts)" in with_rows
    assert fwc("report", tmp_path / "other", "--no-rows", "-o", tmp_path / "b.html").code == 0
    assert BLOCK not in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_an_audit_has_its_rows_once_and_figures(
    fwc: Fwc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    table = CSV.replace("sex,", "sex,age,").replace("f,", "f,old,").replace("m,", "m,new,")
    (tmp_path / "a.csv").write_text(table)
    asked = ("audit", tmp_path / "a.csv", "--answer", "said", "--label", "was", "--protected", "sex,age")
    done = fwc(*asked, "--report", tmp_path / "a.html", "--figures", tmp_path / "figures")
    assert done.code == 2
    assert "pip install 'fwc-llm[plot]'" in done.err
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count(BLOCK) == 1  # not once for each attribute
    assert '"row 80"' in page
    assert "may be people’s records" in page
    assert fwc(*asked, "--report", tmp_path / "b.html", "--no-rows").code == 0
    assert BLOCK not in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_figures_go_nowhere_they_cannot(fwc: Fwc, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    asked = ("audit", tmp_path / "a.csv", "--answer", "said", "--label", "was", "--protected", "sex")
    refused = fwc(*asked, "--figures", tmp_path / "a.csv")
    assert refused.code == 2
    assert "cannot write" in refused.line
