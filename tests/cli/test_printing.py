"""What is printed is text: neither a name nor a message is taken for markup or for a terminal's commands."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Outcome

Run = Callable[..., Outcome]


def test_a_column_named_like_markup(fwc: Run, tmp_path: Path) -> None:
    rows = [f"{'' if k == 7 else 'x'},{'fm'[k % 2]},{('no', 'yes')[k % 3 == 0]}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["[/b]city,sex,income", *rows]) + "\n")
    assert fwc("task", "init", tmp_path / "t.csv", "--protected", "sex", "--outcome", "income").code == 0
    outcome = fwc("shots", "--task", tmp_path / "t.toml", "--strategy", "random", "--m", 4)
    assert outcome.code == 0, outcome.err
    assert "1 row with a missing value dropped ([/b]city 1)" in outcome.err


def test_an_error_cannot_steer_the_terminal(fwc: Run) -> None:
    outcome = fwc("eval", "--task", "\x1b[2J\x9b5m.toml")
    assert outcome.code == 2
    assert "cannot read the task file \ufffd[2J\ufffd5m.toml" in outcome.line
    assert "\x1b" not in outcome.err
