"""Small real tasks: 240 people with two or three protected levels, numbers, categories and
ranks.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fwc_llm.tasks import Task, census_task, load_task

TOML = """
question = "Is the answer yes?"
base_parity = 0.5
columns = [
  { name = "age", kind = "numeric" }, { name = "hours", kind = "numeric", unit = "hours" },
  { name = "job", kind = "categorical" },
  { name = "school", kind = "ordinal", order = ["low", "middle", "high"] },
  { name = "note", kind = "categorical", role = "extra" }, { name = "group" }, { name = "y" },
]
[data]
file = "people.csv"
[outcome]
column = "y"
positive = "yes"
[[protected]]
column = "group"
"""

# A task about the applicants below, and others whose columns have these names.
approvals = partial(load_task, protected="sex", outcome="approved")


def applicants(no: object = 0, yes: object = 1) -> pd.DataFrame:
    """Sixty people of every age from 20, half of whom are approved."""
    columns = {
        "age": range(20, 80),
        "sex": list("FM") * 30,
        "approved": [no, yes, yes, no] * 15,
    }
    return pd.DataFrame(columns)


# Where any rows do: those of the census itself are 45,222.
SMALL_CENSUS = census_task(600, 400)


def named(task: Task, name: str) -> Task:
    """The task under another name."""
    return replace(task, rules=task.rules.model_copy(update={"name": name}))


def make_people(n: int, levels: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    group = rng.choice(
        levels, n, p=np.arange(1, levels + 1) / sum(range(1, levels + 1))
    )
    age = rng.integers(18, 80, n)
    school = rng.choice(3, n)
    answer = (age / 40 + school + group + rng.normal(size=n)) > 3
    return pd.DataFrame(
        {
            "age": age,
            "hours": np.round(rng.uniform(10, 60, n), 1),
            "job": rng.choice(["clerk", "cook", "pilot"], n),
            "school": np.array(["low", "middle", "high"])[school],
            "note": [f"n{i}" for i in range(n)],
            "group": np.array(["a", "b", "c"])[group],
            "y": np.where(answer, "yes", "no"),
        }
    )


def write_people(folder: Path, people: pd.DataFrame) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    people.to_csv(folder / "people.csv", index=False)
    (folder / "people.toml").write_text(TOML)
    return folder / "people.toml"


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Two protected levels."""
    return load_task(write_people(tmp_path_factory.mktemp("two"), make_people(240, 2)))


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Three protected levels."""
    return load_task(
        write_people(tmp_path_factory.mktemp("three"), make_people(240, 3))
    )
