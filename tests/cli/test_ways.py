"""`eval --template a,b --samples K --reference`: what the command line says, writes and repeats."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fwc_llm.resources import resource_dir
from tests.cli.conftest import Outcome
from tests.people import make_people, write_people

Run = Callable[..., Outcome]


@pytest.fixture
def small(tmp_path: Path) -> tuple[object, ...]:
    toml = write_people(tmp_path / "people", make_people(200, 2))
    return ("--task", toml, "--n-test", 20, "--base-parity", "none", "--m", 4)


@pytest.mark.slow
def test_ways_of_asking_are_counted_written_and_repeated(
    fwc: Run, small: tuple[object, ...], tmp_path: Path
) -> None:
    own = tmp_path / "mine"
    shutil.copytree(resource_dir("prompts") / "default", own)
    asked = ("eval", *small, "--model", "baseline", "--shots", "zero,random", "--template", f"default,{own}")
    dry = fwc(*asked, "--samples", 3, "--dry-run")
    assert f"{20 * 2 * 2 * 3} requests" in dry.out
    done = fwc(*asked, "--samples", 3, "--reference", "--out", tmp_path / "runs" / "a")
    assert done.code == 0, done.err
    for said in ("Where the spread comes from", "zero@mine", "The same prompt asked again", "often unlawful"):
        assert said in done.out
    again = fwc("eval", tmp_path / "runs" / "a" / "experiment.toml", "--out", tmp_path / "runs" / "b")
    assert again.code == 0, again.err
    first, second = (tmp_path / "runs" / name for name in "ab")
    assert (first / "results.json").read_text() == (second / "results.json").read_text()
    assert (first / "reference.json").read_text() == (second / "reference.json").read_text()
    settings = json.loads((second / "run.json").read_text())["settings"]
    assert settings["samples"] == 3
    assert [Path(name).name for name in settings["templates"]] == ["default", "mine"]
    rescored = fwc("rescore", first)
    assert rescored.code == 0, rescored.err


@pytest.mark.slow
def test_several_models_have_the_same_lines(fwc: Run, small: tuple[object, ...], tmp_path: Path) -> None:
    from tests.faults.loopback import HttpReply, completion, serve_in_thread

    with serve_in_thread(lambda request: HttpReply(completion("yes"))) as url:
        asked = (
            "eval",
            *small,
            "--model",
            "a,b",
            "--base-url",
            f"{url}/v1",
            "--shots",
            "zero",
            "--reference",
        )
        done = fwc(*asked, "--out", tmp_path / "both")
    assert done.code == 0, done.err
    one, other = ((tmp_path / "both" / name / "reference.json").read_text() for name in "ab")
    assert one == other
    assert "gradient boosting, without group" in fwc("report", tmp_path / "both", "--format", "md").out


def test_reference_lines_need_the_table(fwc: Run, small: tuple[object, ...], tmp_path: Path) -> None:
    asked = ("eval", *small, "--model", "baseline", "--shots", "zero", "--out", tmp_path / "run")
    assert fwc(*asked).code == 0
    shutil.rmtree(tmp_path / "people")
    refused = fwc("report", tmp_path / "run", "--reference")
    assert refused.code == 2
    assert "reference lines need the table" in refused.line


@pytest.mark.parametrize("options", [("--samples", 0), ("--template", ","), ("--template", "default,none")])
def test_bad_ways_are_refused(fwc: Run, small: tuple[object, ...], options: tuple[object, ...]) -> None:
    refused = fwc("eval", *small, "--model", "baseline", "--shots", "zero", *options, "--dry-run")
    assert refused.code == 2
    assert refused.line.startswith("fwc-llm: ")
