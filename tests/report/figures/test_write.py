"""Figures to keep: whole without the page, marked where simulated, the same bytes every time."""

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fwc_llm.report.figures.write import NO_PNG, write_figures

from fwc_llm.errors import FwcError
from fwc_llm.report.document import make_document

MakeRun = Callable[..., Path]
NAMES = ["rates", "repeats-accuracy", "repeats-dp-gap", "tradeoff"]
EVIL = "</svg><script>alert(1)</script>\x1b[31m\u202e$x^2$"


def test_svg_files_stand_alone(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what an installation without the extra has
    rates = {
        f"zero{EVIL}": {"A": (0.1, 0.5), f"B{EVIL}": (0.3, 0.8)},
        "fwc": {"A": (0.2, 0.6), f"B{EVIL}": (0.3, 0.7)},
    }
    document = make_document([make_run(rates=rates, repeats=3, model=EVIL, simulated=True)])
    written, missing = write_figures(document, tmp_path / "figures")
    assert missing == NO_PNG
    assert [path.name for path in sorted(written)] == [f"{name}.svg" for name in NAMES]
    for path in written:
        text = path.read_text(encoding="utf-8")
        picture = ElementTree.fromstring(text)
        assert not [one.tag for one in picture.iter() if one.tag.endswith(("script", "style", "image"))]
        assert not any(left in text for left in ("class=", "var(", "currentColor"))
        assert "SIMULATED" in text
        assert not {"\x1b", "\u202e"} & set(text)
        shown = picture.iter("{http://www.w3.org/2000/svg}text")
        assert all(one.get("fill", "").startswith("#") and one.get("font-size") for one in shown)
        assert "fwc" in text
    before = {path: path.read_bytes() for path in written}
    write_figures(document, tmp_path / "figures")
    assert {path: path.read_bytes() for path in written} == before


@pytest.mark.slow
def test_png_files_are_the_same_pictures(make_run: MakeRun, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    document = make_document([make_run(repeats=2)])
    written, missing = write_figures(document, tmp_path / "a")
    again, _ = write_figures(document, tmp_path / "b")
    assert not missing
    assert [path.name for path in written if path.suffix == ".png"] == [
        "rates.png", "tradeoff.png", "repeats-accuracy.png", "repeats-dp-gap.png",
    ]  # fmt: skip
    for one, other in zip(written, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.suffix == ".svg" or one.read_bytes().startswith(b"\x89PNG")


def test_files_of_several_runs_have_their_names(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    runs = [make_run("one", repeats=1, model="a/b"), make_run("two", repeats=1, model="c", seed=1)]
    written, _ = write_figures(make_document(runs), tmp_path / "figures")
    assert {path.name for path in written if path.suffix == ".svg"} == {
        "a_b-rates.svg", "a_b-tradeoff.svg", "c-rates.svg", "c-tradeoff.svg",
    }  # fmt: skip


def test_a_folder_that_cannot_be_written_to_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FwcError, match="cannot write figures"):
        write_figures(make_document([make_run(repeats=1)]), tmp_path / "file")
