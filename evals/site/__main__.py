"""Build the site: the pages of the checkout, the notebooks, and a reference made from the code.

`python -m evals.site -o site` needs the extra `[docs]` and no network. A broken link or any other
warning of the generator fails the build with exit code 1.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from evals.site.build import build


def main() -> int:
    """Build into a folder, and say where its first page is."""
    parser = argparse.ArgumentParser(prog="python -m evals.site", description=__doc__)
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("site"), help="the folder of the site"
    )
    out = parser.parse_args().out
    with TemporaryDirectory(prefix="fwc-llm-site-") as folder:
        try:
            code = build(Path(folder), out)
        except ModuleNotFoundError as error:
            print(f"{error.name} is missing: pip install -e '.[docs]'", file=sys.stderr)
            return 2
    print(f"{out / 'index.html'}" if code == 0 else "the site has faults: see above")
    return code


if __name__ == "__main__":
    sys.exit(main())
