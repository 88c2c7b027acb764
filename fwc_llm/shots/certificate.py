"""`Certificate`: what a strategy proves about its choice of examples."""

from typing import Any

from fwc_llm.notebook import figure, table

# Long lists, which `Shots` also holds example by example.
_OF_SHOTS = ("rows", "weights")


class Certificate(dict[str, Any]):
    """A selection's certificate: a dict of plain values, the same in memory and in a file of shots.

    For `fwc`: the `objective` (distance between table and examples), its `lower_bound`, the `violation` of
    parity, `slots` (how many examples each cell has), `rows` and `weights`, iterations, restarts, seed and
    the table's fingerprint. Other strategies add what they can prove.
    """

    def facts(self) -> dict[str, str]:
        """The entries in words, without the lists that stand with the examples."""
        return {str(name): _words(value) for name, value in self.items() if name not in _OF_SHOTS}

    def __repr__(self) -> str:
        return f"Certificate({', '.join(f'{name}={words}' for name, words in self.facts().items())})"

    def _repr_html_(self) -> str:
        rows = [(name.replace("_", " "), words) for name, words in self.facts().items()]
        return figure("certificate", table(("", "value"), rows))


def _words(value: Any) -> str:
    """One entry, short enough for a line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        several = [_words(item) for item in value[:6]]
        return ", ".join([*several, "…"] if len(value) > 6 else several)
    if isinstance(value, dict):
        return " ".join(_words(item) for item in value.values())
    return str(value) if len(str(value)) <= 60 else f"{str(value)[:16]}…"
