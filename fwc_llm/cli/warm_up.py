"""`fwc-llm warm-up` compiles the solver ahead of its first use."""

from fwc_llm.cli.flags import command


@command("warm-up")
def warm_up() -> None:
    """Compile the solver now, so that no later run waits for it: for images and CI.

    A solver compiles when it is first used, which takes seconds. This compiles all of it in about half a
    minute and says where it keeps the code: beside the package, in the user's cache folder where that cannot
    be written, or where NUMBA_CACHE_DIR says. What is compiled already stays as it is.

    In an image, add `RUN fwc-llm warm-up` after the installation, as the user that will run it. In CI, keep
    the environment after it. The code is for one kind of processor: another one compiles it again, unless
    NUMBA_CPU_NAME=generic is set for both. A new installation starts anew.
    """
    from fwc_llm.cli.console import lines, working
    from fwc_llm.coreset.compiled import quietly

    with quietly():  # the tile is compiled when it is imported
        from fwc_llm.coreset.warm_up import PROBLEMS, cache_folder, get_ready

    total, compiled = 0.0, 0
    with working("compiling") as say:
        for name in PROBLEMS:
            say(f"compiling: {name}")
            seconds, count = get_ready(name)
            lines(f"{name}: " + (f"compiled in {seconds:.1f} s" if count else f"ready ({seconds:.1f} s)"))
            total, compiled = total + seconds, compiled + count
    folder = cache_folder()
    if folder is None:
        lines("Nothing could be kept, as no folder can be written: set NUMBA_CACHE_DIR to one that can.")
    else:
        done = f"Compiled {compiled} functions" if compiled else "Everything was compiled already"
        lines(f"{done}; {total:.1f} s in all. The code is in {folder}")
