"""`fwc-llm warm-up`: compile the solver."""

from fwc_llm.cli.console import lines, working
from fwc_llm.cli.flags import command


@command("warm-up")
def warm_up() -> None:
    """Compile the solver ahead of time, for images and CI.

    By default the solver compiles at first use, which takes seconds. This command compiles
    everything in ten to twenty seconds and prints the folder of the code: NUMBA_CACHE_DIR, else
    beside the package, or the user's cache folder if that is read-only. Compiled code is kept.

    In an image, add `RUN fwc-llm warm-up` after the installation, as the user that will run it. In
    CI, cache the environment. Another kind of processor or a new installation compiles again;
    NUMBA_CPU_NAME=generic serves all processors.
    """
    from fwc_llm.coreset.warm_up import PROBLEMS, cache_folder, get_ready

    total = 0.0
    compiled = 0
    with working("compiling") as say:
        for name in PROBLEMS:
            say(f"compiling: {name}")
            seconds, count = get_ready(name)
            lines(
                f"{name}: "
                + (
                    f"compiled in {seconds:.1f} s"
                    if count
                    else f"ready ({seconds:.1f} s)"
                )
            )
            total = total + seconds
            compiled = compiled + count
    folder = cache_folder()
    if folder is None:
        lines(
            "The compiled code is not kept: no folder is writable. Set NUMBA_CACHE_DIR to a "
            "writable folder."
        )
    else:
        done = (
            f"Compiled {compiled} functions"
            if compiled
            else "Everything was compiled already"
        )
        lines(f"{done}; {total:.1f} s in total. The compiled code is in {folder}")
