"""answers.csv by columns: the same as line by line."""

import csv
from pathlib import Path

import numpy as np
from fwc_llm.report.answer_columns import answers_by_arm

from fwc_llm.runs.folder import ANSWER_COLUMNS, RunFolder
from tests.report.conftest import write_run

MANY = 12_000  # more than one block


def many(folder: Path, answers: int = MANY) -> RunFolder:
    """A folder with one arm's answers, each with a reply of its own."""
    write_run(folder, repeats=1)
    run = RunFolder(folder)
    run.write_json("run.json", run.describe() | {"arms": ["zero"], "calls": answers})
    with (folder / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(ANSWER_COLUMNS)
        for place in range(answers):
            said, label = ("yes", "no")[place % 2], ("yes", "no")[place % 3 == 0]
            group, p = "f" if place % 5 else "'=m", f"{place % 1000 / 1000:.3f}"
            reply = f"{said}, because of {place}. " * 5
            writer.writerow(("zero", 0, f"row {place}", "", group, label, said, "", p, reply, "false"))
    return run


def test_every_column_is_what_its_lines_say(tmp_path: Path) -> None:
    run = many(tmp_path / "run")
    lines = list(run.read_answers())
    (found,) = answers_by_arm(run, ["zero"])[0].values()
    assert [found.row[place] for place in (0, MANY - 1)] == ["row 0", f"row {MANY - 1}"]
    for name in ("row", "variant", "group", "reason"):
        assert getattr(found, name).tolist() == [line[name] for line in lines], name
    assert set(found.group.unique()) == {"f", "=m"}
    np.testing.assert_array_equal(found.label == 1, [line["label"] == "yes" for line in lines])
    np.testing.assert_array_equal(found.answer == 1, [line["answer"] == "yes" for line in lines])
    np.testing.assert_array_equal(found.p_yes, [float(line["p_yes"]) for line in lines])
