"""The task files that come with the package: the built-in tasks, and layouts to copy beside a table."""

from fwc_llm.errors import FwcError
from fwc_llm.resources import resource_dir


def task_names() -> tuple[str, ...]:
    """The built-in tasks, the simulated census among them."""
    return (
        *sorted(path.stem for path in resource_dir("evals/tasks").glob("*.toml") if path.stem != "census"),
        "census",
    )


def layout_names() -> tuple[str, ...]:
    """Task files to copy beside a table that everybody fetches themselves (docs/data-sets.md)."""
    return tuple(sorted(path.stem for path in resource_dir("evals/tasks/layouts").glob("*.toml")))


def task_text(name: str) -> str:
    """The text of a built-in task's file, or of one to copy; `FwcError` for other names."""
    for folder in ("evals/tasks", "evals/tasks/layouts"):
        path = resource_dir(folder) / f"{name}.toml"
        if name in (*task_names(), *layout_names()) and path.is_file():
            return path.read_text(encoding="utf-8")
    names = ", ".join((*(known for known in task_names() if known != "census"), *layout_names()))
    raise FwcError(f"there is no task file {name!r}; there are {names}")
