"""The wheel as a user gets it: size, weight of the base installation and of a service, first commands.

    python -m evals.packages                                    # this Python
    python -m evals.packages --python python3.12 --python python3.13 --record

Builds the wheel from the checkout, makes an empty environment for each Python, installs the wheel there with
what it needs, and runs the first commands outside the checkout. pip takes what it is set up to take:
PIP_NO_INDEX=1 and PIP_FIND_LINKS=DIR keep it from the network. A Python that pyproject.toml does not allow is
shown to be refused. A service gets the wheel with `pip install --no-deps`, and the packages of `SERVICE`.
`--record` writes evals/results/packages.{json,md}.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from evals.record import command_line, markdown, write

CHECKOUT = Path(__file__).resolve().parent.parent
LARGEST_WHEEL = 2**20  # bytes
COMMANDS = (
    ("--version",),
    ("doctor", "--json"),
    ("tasks",),
    ("template", "init", "wording"),
    ("task", "copy", "adult"),
    ("eval", "--out", "run"),
    ("report", "run"),
)
SERVICE = ("jinja2", "pydantic")  # all that a prompt about one record needs
# What a service does: in CPU seconds, MiB of memory at most, and milliseconds a prompt.
SERVE = """
import json, re, time
from pathlib import Path

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

before = time.process_time()
from fwc_llm import build_prompt, load_shots, load_task
imported = time.process_time() - before
memory = peak()
task, shots = load_task("task.json"), load_shots("shots.json")
row = json.loads(Path("row.json").read_text())
messages = build_prompt(task, row, shots)
ready, started = time.process_time() - before, time.process_time()
for _ in range(2000):
    build_prompt(task, row, shots)
took = (time.process_time() - started) / 2
found = {"import_s": imported, "import_mb": memory, "ready_s": ready, "ready_mb": peak(), "prompt_ms": took}
print(json.dumps({name: round(value, 3) for name, value in found.items()} | {"messages": len(messages)}))
"""
_SHOWN = 8  # packages by name; the others are summed up


def build(folder: Path) -> Path:
    """Build the wheel into a folder, without a network: the build backend is that of this environment."""
    _pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, CHECKOUT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, int]:
    """Bytes inside the wheel by its first two folders, compressed."""
    found: dict[str, int] = {}
    with zipfile.ZipFile(wheel) as archive:
        for one in archive.infolist():
            parts = one.filename.split("/")
            name = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
            found[name] = found.get(name, 0) + one.compress_size
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def installed(site: Path) -> dict[str, int]:
    """Bytes of every distribution in a folder of packages, compiled files included; pip left out."""
    found = {}
    for dist in metadata.distributions(path=[str(site)]):
        name = str(dist.metadata["Name"])
        if name not in {"pip", "setuptools"}:
            paths = (Path(str(dist.locate_file(file))) for file in dist.files or ())
            found[name] = sum(path.stat().st_size for path in paths if path.is_file())
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def write_service(folder: Path) -> None:
    """Write what a service about the census reads: a frozen task, examples and one record."""
    from fwc_llm import load_task, save_shots, select_shots

    census = load_task("census")
    census.freeze(folder / "task.json")
    save_shots(select_shots(census, "balanced", m=8), folder / "shots.json")
    (folder / "row.json").write_text(json.dumps(census.test().iloc[0].to_dict()), encoding="utf-8")


def try_service(python: str, wheel: Path, folder: Path) -> dict[str, Any]:
    """Install the wheel without solver and SDK in an empty environment, and build prompts there."""
    write_service(folder)
    inside, site = _environment(python, folder / "service")
    _pip(str(inside / "python"), "install", "--no-deps", wheel)
    (ours,) = metadata.distributions(name="fwc-llm", path=[str(site)])
    needs = [need for need in ours.requires or () if need.startswith(SERVICE)]
    _pip(str(inside / "python"), "install", *needs)
    bare = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "FWC_LLM_DATA"}}
    words = [str(inside / "python"), "-c", SERVE]
    done = subprocess.run(words, cwd=folder, env=bare, check=True, capture_output=True, text=True)
    return {**json.loads(done.stdout), "needs": needs, "packages": installed(site)}


def try_python(python: str, wheel: Path, folder: Path) -> dict[str, Any]:
    """Install the wheel for one Python in an empty environment and run the first commands there."""
    version = _output(python, "-c", "import platform; print(platform.python_version())")
    inside, site = _environment(python, folder / f"python-{version}")
    alone = _pip(str(inside / "python"), "install", "--no-deps", wheel, check=False)
    if "requires a different Python" in alone.stderr:
        return {"python": version, "installed": False, "reason": "refused: another Python is required"}
    _pip(str(inside / "python"), "install", wheel)
    work = folder / f"work-{version}"
    work.mkdir()
    bare = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "FWC_LLM_DATA"}}
    for words in COMMANDS:
        subprocess.run([inside / "fwc-llm", *words], cwd=work, env=bare, check=True, capture_output=True)
    results = json.loads((work / "run" / "results.json").read_text(encoding="utf-8"))
    return {
        "python": version,
        "installed": True,
        "commands": [" ".join(words) for words in COMMANDS],
        "answered": results["requests"] - results["unanswered"],
        "packages": installed(site),
    }


def as_markdown(report: Mapping[str, Any]) -> str:
    """The figures as a page."""
    tried = "".join(f" --python python{one['python'].rpartition('.')[0]}" for one in report["pythons"])
    lines = []
    for one in report["pythons"]:
        ran, weight = "–", "–"
        if one["installed"]:
            ran = f"all {len(one['commands'])}, {one['answered']:,} rows answered"
            weight = _size(one["packages"])
        lines.append([one["python"], one.get("reason", "installed"), ran, weight])
    text = f"""# The package

Made by `{report["command"]}{tried}` on {report["system"]}, from a checkout.

The wheel has {report["wheel"] / 2**20:.2f} MiB; a test keeps it under {LARGEST_WHEEL / 2**20:.0f} MiB.

## Every Python, from an empty environment

{markdown(["Python", "the wheel", "first commands", "base installation"], lines)}"""
    if first := next((one for one in report["pythons"] if one["installed"]), None):
        text += f"\nThe first commands: {', '.join(f'`fwc-llm {words}`' for words in first['commands'])}.\n"
        text += _weights(first)
    return text + _service(report["service"])


def _size(packages: Mapping[str, int]) -> str:
    return f"{sum(packages.values()) / 1e6:.0f} MB in {len(packages)} packages"


def _service(found: Mapping[str, Any]) -> str:
    needs = " ".join(f"'{need}'" for need in found["needs"])
    rows = {
        "installed": _size(found["packages"]),
        "importing what it calls": f"{found['import_s']:.2f} s, {found['import_mb']:.0f} MiB",
        "until the first prompt": f"{found['ready_s']:.2f} s, {found['ready_mb']:.0f} MiB",
        "a prompt, its record cleaned": f"{found['prompt_ms']:.2f} ms",
    }
    return f"""
## A service that builds prompts

`pip install --no-deps` of the wheel and `pip install {needs}`; a frozen task of the census and
eight examples. Seconds of CPU time, the most memory so far.

{markdown(["", ""], rows.items())}"""


def _weights(one: Mapping[str, Any]) -> str:
    packages = list(one["packages"].items())
    rows = packages[:_SHOWN]
    rows.append((f"{len(packages) - _SHOWN} others", sum(size for _, size in packages[_SHOWN:])))
    rows.append(("all", sum(one["packages"].values())))
    return f"""
## What the base installation weighs

Python {one["python"]}; all files, those that pip compiles included; MB are 10⁶ bytes.

{markdown(["package", "MB"], ((name, f"{size / 1e6:.1f}") for name, size in rows))}"""


def _pip(python: str, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(done.stderr)
    return done


def _environment(python: str, folder: Path) -> tuple[Path, Path]:
    """Make an empty environment; return the folders of its programs and of its packages."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = folder / ("Scripts" if os.name == "nt" else "bin")
    return inside, Path(
        _output(inside / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    )


def _output(*words: object) -> str:
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Build, install, try; print the page, and keep it with --record."""
    parser = command_line(__doc__)
    parser.add_argument("--python", action="append", help="an interpreter; repeatable [default: this one]")
    parser.add_argument("--record", action="store_true", help="write evals/results/packages.{json,md}")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder)
        report = {
            "command": "python -m evals.packages --record",
            "system": f"{platform.system()} {platform.machine()}",
            "wheel": wheel.stat().st_size,
            "contents": contents(wheel),
            "service": try_service(sys.executable, wheel, folder),
            "pythons": [try_python(one, wheel, folder) for one in options.python or [sys.executable]],
        }
    print(as_markdown(report), end="")
    if options.record:
        write("packages", report, as_markdown(report))


if __name__ == "__main__":
    main()
