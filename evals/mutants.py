"""Mutants: small changes of a room's code, one at a time, and whether the room's own tests notice them.

    python -m evals.mutants gates answers             # a sample of 60 changes of each, printed
    python -m evals.mutants gates --sample 0 --record # all of them, into evals/results/mutants.{json,md}

A copy of what git has is changed and tested, never the checkout. A change that nobody could notice is judged
`equivalent` by a reader, who writes the reason beside it in mutants.json; a later run keeps these judgements.
"""

import ast
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from evals.record import RESULTS, command_line, markdown, write

CHECKOUT = Path(__file__).resolve().parent.parent
ROOMS = {
    "metrics": ("fwc_llm/metrics", "tests/metrics"),
    "gates": ("fwc_llm/gates", "tests/gates"),
    "transport": ("fwc_llm/coreset/transport", "tests/coreset/transport"),
    "answers": ("fwc_llm/answers.py", "tests/test_answers.py"),
}
SAMPLE, NICE = 60, 15
_PATIENCE = 5  # times the tests' usual time, after which a change that makes them endless is noticed
_GOAL = 0.85
_TURNED: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
_NO_CODE = {"annotation", "returns", "decorator_list"}
_SKIPPED = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)  # words for people, and names


def changes(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield each change of a tree: the function that it is in, its words, and what makes it."""
    for name, value in ast.iter_fields(tree):
        nodes = value if isinstance(value, list) else [value]
        for place, node in enumerate(nodes if name not in _NO_CODE else ()):
            if not isinstance(node, ast.AST) or isinstance(node, _SKIPPED):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            for new in _changed(node):
                words = f"{ast.unparse(node)} -> {ast.unparse(new)}"
                yield inside, words, partial(_put, tree, name, place, new)
            own = f".{node.name}" if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
            yield from changes(node, f"{inside}{own}".strip("."))


def _put(tree: ast.AST, name: str, place: int, new: ast.AST) -> None:
    if isinstance(nodes := getattr(tree, name), list):
        nodes[place] = new
    else:
        setattr(tree, name, new)


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left, op, right) if type(op) in _TURNED:
            yield ast.BinOp(left, _TURNED[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_TURNED[type(op)](), values)
        case ast.Compare(left, ops, others):
            for place, compared in enumerate(ops):
                yield ast.Compare(left, [*ops[:place], _TURNED[type(compared)](), *ops[place + 1 :]], others)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)


def mutant(text: str, number: int) -> tuple[str, str, str]:
    """The code with its change of this number, the function that it is in, and its words."""
    tree = ast.parse(text)
    inside, words, change = next(islice(changes(tree), number, None))
    change()
    return ast.unparse(tree), inside, words


def noticed(copied: Path, tests: str, seconds: float) -> bool:
    """Whether the tests fail, or take longer than `seconds`."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", tests]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": copied}
    quiet["env"] = os.environ | {"PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command, timeout=seconds, check=False, **quiet).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def try_room(room: str, sample: int, seed: int, copied: Path) -> dict[str, Any]:
    """Change the room's code so many times (0: in all ways); return what its tests did not notice."""
    place, tests = ROOMS[room]
    files = [copied / place] if place.endswith(".py") else sorted((copied / place).rglob("*.py"))
    texts = {file.relative_to(copied): file.read_text(encoding="utf-8") for file in files}
    sites = [(file, n) for file, text in texts.items() for n, _ in enumerate(changes(ast.parse(text)))]
    chosen = random.Random(seed).sample(sites, sample) if 0 < sample < len(sites) else sites
    begun = time.monotonic()
    if noticed(copied, tests, 3600):
        raise SystemExit(f"{tests} fails without any change")
    seconds = _PATIENCE * (time.monotonic() - begun)
    survivors = []
    for number, (file, n) in enumerate(chosen, 1):
        code, inside, words = mutant(texts[file], n)
        (copied / file).write_text(code, encoding="utf-8")
        if not noticed(copied, tests, seconds):
            survivors.append(
                {"file": file.as_posix(), "in": inside, "change": words, "equivalent": "", "since": ""}
            )
        (copied / file).write_text(texts[file], encoding="utf-8")
        print(f"{room}: {number} of {len(chosen)} tried, {len(survivors)} not noticed", file=sys.stderr)
    return {"changes": len(sites), "seed": seed, "tried": len(chosen), "survivors": survivors}


def page(rooms: dict[str, Any]) -> str:
    """The results as Markdown."""
    shares, survivors = [], []
    for room, found in rooms.items():
        alike = sum(bool(each["equivalent"]) for each in found["survivors"])
        counted = found["tried"] - alike
        share = (found["tried"] - len(found["survivors"])) / max(counted, 1)
        tried = (found["tried"], found.get("seed", 0))
        shares.append([room, f"{found['changes']:,}", *tried, alike, f"{share:.0%}"])
        for each in found["survivors"]:
            why = f" (equivalent: {each['equivalent']})" if each["equivalent"] else ""
            why += f" (noticed since then by `{each['since']}`)" if each["since"] else ""
            survivors.append(f"* `{each['file']}`, `{each['in'] or 'module'}`: `{each['change']}`{why}\n")
    return f"""# Mutants

Small changes of the code, one at a time (`python -m evals.mutants ROOM --sample N --seed SEED`): an operator
or a comparison turned round, a number one higher, a `not` or a minus left out. Noticed is where a
test of the room fails. What a reader judges equivalent does not count. The goal is {_GOAL:.0%}.

{markdown(["room", "possible", "tried", "seed", "equivalent", "noticed"], shares)}
Not noticed:

{"".join(survivors)}"""


def main() -> None:
    """Try the rooms; print the page, and with `--record` write it."""
    parser = command_line(__doc__)
    parser.add_argument("rooms", nargs="+", choices=ROOMS)
    parser.add_argument("--sample", type=int, default=SAMPLE, help="changes of each room; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    os.nice(NICE)
    file = RESULTS / "mutants.json"
    rooms: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    judged = {(each["file"], each["in"], each["change"]): each
              for found in rooms.values() for each in found["survivors"]}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder).resolve()
        subprocess.run(["git", "checkout-index", "--all", f"--prefix={copied}/"], cwd=CHECKOUT, check=True)
        tried = {room: try_room(room, options.sample, options.seed, copied) for room in options.rooms}
    for each in (each for found in tried.values() for each in found["survivors"]):
        known = judged.get((each["file"], each["in"], each["change"]), each)
        each |= {"equivalent": known["equivalent"]}
    rooms |= tried
    print(page(rooms))
    if options.record:
        write("mutants", rooms, page(rooms))


if __name__ == "__main__":
    main()
