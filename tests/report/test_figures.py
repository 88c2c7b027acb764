"""Figures to keep: every chart as SVG and PNG, marked where simulated, the same bytes every time."""

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fwc_llm.errors import FwcError
from fwc_llm.report.document import make_document
from fwc_llm.report.figures import write_figures

MakeRun = Callable[..., Path]
NAMES = ["rates", "tradeoff", "repeats-accuracy", "repeats-dp-gap"]
EVIL = "</svg><script>alert(1)</script>\x1b[31m\u202e$x^2$"


def test_every_chart_is_a_file_of_both_kinds(make_run: MakeRun, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rates = {
        f"zero{EVIL}": {"A": (0.1, 0.5), f"B{EVIL}": (0.3, 0.8)},
        "fwc": {"A": (0.2, 0.6), f"B{EVIL}": (0.3, 0.7)},
    }
    document = make_document([make_run(rates=rates, repeats=3, model=EVIL, simulated=True)])
    written = write_figures(document, tmp_path / "figures")
    assert [path.name for path in written] == [f"{n}{kind}" for n in NAMES for kind in (".png", ".svg")]
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            continue
        text = path.read_text(encoding="utf-8")
        assert not [one.tag for one in ElementTree.fromstring(text).iter() if one.tag.endswith("script")]
        assert not {"\x1b", "\u202e"} & set(text)
        assert "SIMULATED" in text  # matplotlib writes every text as a comment beside its glyphs
    again = write_figures(document, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_files_of_several_runs_have_their_names(make_run: MakeRun, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = [make_run("one", repeats=1, model="a/b"), make_run("two", repeats=1, model="c", seed=1)]
    written = write_figures(make_document(runs), tmp_path / "figures")
    assert {path.name for path in written if path.suffix == ".svg"} == {
        "a_b-rates.svg", "a_b-tradeoff.svg", "c-rates.svg", "c-tradeoff.svg",
    }  # fmt: skip
    (tmp_path / "file").write_text("")
    with pytest.raises(FwcError, match="cannot write"):
        write_figures(make_document(runs), tmp_path / "file")


def test_without_matplotlib_they_say_what_to_install(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FwcError, match="plot"):
        write_figures(make_document([make_run(repeats=1)]), tmp_path)
