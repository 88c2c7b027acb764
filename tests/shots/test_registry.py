"""The names of strategies, wherever they are asked for."""

import subprocess
import sys


def test_the_list_of_strategies_stays_a_function_when_one_was_used() -> None:
    """A strategy's file is imported when it is first used; its folder has the name of the function."""
    code = "import fwc_llm.shots as s, fwc_llm.shots.strategies.baselines; print('fwc' in s.strategies())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
