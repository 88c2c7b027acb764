"""`fwc-llm template init` and `fwc-llm task copy`: what comes with the package, to begin one's own from."""

from pathlib import Path
from typing import Annotated

import typer

from fwc_llm.cli.examples import epilog
from fwc_llm.cli.options import Command, Group, copied, shown

template_app = typer.Typer(help="Template sets of your own.", no_args_is_help=True, cls=Group)


@template_app.callback()
def _templates() -> None:
    """Make the one command a command of its own, not the group itself."""


@template_app.command("init", cls=Command, epilog=epilog("template init"))
@shown
def template_init(
    folder: Annotated[Path, typer.Argument(help="The folder to write; it may not hold anything.")],
    template: Annotated[
        str, typer.Option("--from", help="The template set to begin from: default, decision, paper, …")
    ] = "default",
) -> None:
    """Copy a template set that comes with the package, to be changed and used with --template DIR."""
    from fwc_llm.cli.console import err
    from fwc_llm.errors import FwcError
    from fwc_llm.files import read_text, write_whole
    from fwc_llm.prompts import templates
    from fwc_llm.resources import resource_dir

    if template not in templates():
        raise FwcError(f"unknown template set {template!r}: there are {', '.join(templates())}")
    _make_empty(folder)
    files = sorted((resource_dir("prompts") / template).glob("*.j2"))
    for file in files:
        write_whole(read_text(file), folder / file.name)
    names = ", ".join(file.name for file in files)
    err.print(f"wrote {names} to {folder}, from the set {template}", soft_wrap=True)
    err.print(f"see what it says with: fwc-llm prompt --template {folder}", soft_wrap=True)


def _make_empty(folder: Path) -> None:
    from fwc_llm.errors import FwcError
    from fwc_llm.files import reason

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FwcError(f"{folder} is not empty: name a folder that is not there yet")
    except (OSError, ValueError) as error:
        raise FwcError(f"cannot make the folder {folder}: {reason(error)}") from None


def task_copy(
    task: Annotated[
        str,
        typer.Argument(
            help="A built-in task with a file, or one to copy (`fwc-llm tasks`).", autocompletion=copied
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write. [default: TASK.toml, here]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Copy the file of a built-in task, to be changed and used with --task FILE."""
    from fwc_llm.cli.console import err
    from fwc_llm.errors import FwcError
    from fwc_llm.files import is_file, write_whole
    from fwc_llm.tasks import layout_names, task_text

    text = task_text(task)
    target = out or Path(f"{task}.toml")
    if target.suffix != ".toml":
        raise FwcError(f"the task file {target} must end in .toml, so that --task recognises it")
    if is_file(target) and not force:
        raise FwcError(f"{target} exists already; name another file with -o, or overwrite it with --force")
    write_whole(text, target, "the task file ")
    if task in layout_names():
        err.print(f"put the table that its first lines name beside {target}", soft_wrap=True)
    err.print(f"wrote {target}; look at it with: fwc-llm task check {target}", soft_wrap=True)
