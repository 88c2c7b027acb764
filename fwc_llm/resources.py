"""Where templates and task files lie: inside the package in a wheel, beside it in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """The folder `name` ("prompts", "evals/tasks") as installed, or in place in a checkout."""
    packaged = _PACKAGE / "_resources" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name
