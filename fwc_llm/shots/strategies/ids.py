"""`ids`: rows that the user names."""

from collections.abc import Sequence

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_shots
from fwc_llm.shots.registry import strategy


@strategy(rows=())
def ids(request: Request, rows: "str | Sequence[str]") -> Shots:
    """The rows with these ids, in this order, unweighted; m is ignored.

    Option: `rows`, ids such as "adult.data:17" (file and line), a sequence or comma-separated.

    Errors: `FwcError` for no ids, an id that is not in the pool or may not become an example, and one named
    twice.
    """
    wanted = [row.strip() for row in (rows.split(",") if isinstance(rows, str) else rows)]
    if not wanted:
        raise FwcError("ids needs the option rows: name them, for example rows='adult.data:17,adult.data:21'")
    positions: list[int] = []
    places = {str(row): position for position, row in enumerate(request.pool.index)}
    for row in wanted:
        if row not in places:
            raise FwcError(
                f"the row {row!r} is not in the pool, whose ids look like {str(request.pool.index[0])!r}"
            )
        position = places[row]
        if not request.candidates[position]:
            raise FwcError(f"the row {row!r} may not become an example: it equals a test row")
        if position in positions:
            raise FwcError(f"the row {row!r} is named twice")
        positions.append(position)
    return make_shots(request, "ids", positions)
