"""The terms of the ground cost for compiled loops; `coreset.problem.ground_cost` says what they are."""

from fwc_llm.coreset.compiling.kernel import part


@part
def column_cost(apart, numeric, squared):  # type: ignore[no-untyped-def]
    """What a column adds to the cost where two values differ by `apart`."""
    if not numeric:
        return 1.0 if apart != 0 else 0.0
    return apart * apart if squared else abs(apart)
