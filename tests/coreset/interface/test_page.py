"""The code of docs/scikit-learn.md runs as it stands, from top to bottom."""

import re
from pathlib import Path

import pytest
import sklearn

PAGE = Path(__file__).resolve().parents[3] / "docs" / "scikit-learn.md"


@pytest.mark.slow
def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, object] = {"__name__": "__main__"}
    with sklearn.config_context():  # what the page sets ends with it
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) >= 7
    assert names["search"].best_params_.keys() == {"coreset__m", "coreset__epsilon"}
    assert "pass sensitive" in capsys.readouterr().out
