"""What the solver refuses is a `ValueError` too, wherever it is refused."""

from pathlib import Path

import fwc_llm.coreset


def test_the_solver_raises_no_plain_error_of_the_house() -> None:
    folder = Path(fwc_llm.coreset.__file__).parent
    plain = [path.name for path in folder.rglob("*.py") if "FwcError" in path.read_text(encoding="utf-8")]
    assert not plain, f"use InputError in {plain}"
