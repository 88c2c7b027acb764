"""What the runs of Inspect ask, for those who write their logs and those who read them."""

from typing import Any

CENSUS: dict[str, Any] = {"arms": ("zero", "balanced"), "n_test": 8, "m": 4}
CENSUS_ARGUMENTS = {
    "shots": ",".join(CENSUS["arms"]),
    "n_test": CENSUS["n_test"],
    "m": CENSUS["m"],
}
MOCKED = ("Yes", "refusal", "filter", "long", "error", "What a question.", "no", "NO!")
REASONS = ("", "refused", "filtered", "truncated", "error", "other", "", "")
KEY = "sk-planted-0123456789abcdefghij"


def table(rows: int = 40) -> str:
    """A table with both answers and both sexes in every four rows."""
    lines = [
        f"{i},{'red' if i % 3 else 'blue'},{'fm'[i % 2]},{'yes' if i // 2 % 2 else 'no'}"
        for i in range(rows)
    ]
    return "\n".join(["x,colour,sex,y", *lines, ""])
