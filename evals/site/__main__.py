"""Build the site: `python -m evals.site -o site` is `sphinx-build` with every warning an error.

It needs the extra `[docs]` and no network. A broken link or any other warning fails the build.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent


def build(out: Path) -> int:
    """Build into the folder `out`; the exit code of Sphinx."""
    from sphinx.cmd.build import main

    with TemporaryDirectory(prefix="fwc-llm-site-") as trees:
        return main(
            [
                "-qW",
                "--keep-going",
                "-c",
                str(HERE),
                "-d",
                trees,
                str(HERE.parents[1]),
                str(out),
            ]
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m evals.site", description=__doc__)
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("site"), help="folder of the site"
    )
    sys.exit(build(parser.parse_args().out))
