"""The demonstration on all pages: `python -m evals.demonstration` runs it once and writes what they show.

The run is `fwc-llm eval` without options, a simulated census and a simulated model. From it come the console
blocks that follow a comment `<!-- demonstration: PARTS -->` on a page, and docs/pictures/report.png, whose
text has the table that it shows. `--check` writes nothing and ends with 1 where a page says something else;
it needs no browser. The picture needs Playwright, a chromium on the PATH, and Pillow (extra `[plot]`).
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evals.site.pages import CHECKOUT, DOCS

PICTURE = DOCS / "pictures" / "report.png"
PAGES = (DOCS / "start.md", DOCS / "numbers.md")
COMMAND = "fwc-llm eval --out demo"
WIDTH = 1080  # of the window, in its own pixels
COLOURS = 160  # text and lines of a page look the same with so few, at half the size
_BLOCK = re.compile(r"<!-- demonstration: (?P<parts>[a-z, ]+) -->\n```console\n.*?^```$", re.S | re.M)


def run(folder: Path) -> str:
    """Run the demonstration in `folder`, which gets its run as demo; return what the terminal shows."""
    arguments = [sys.executable, "-m", "fwc_llm", *COMMAND.split()[1:]]
    done = subprocess.run(
        arguments,
        cwd=folder,
        env={  # a cache of its own: examples that an earlier solver chose are kept by version alone
            **os.environ,
            "COLUMNS": "110",
            "PYTHONPATH": str(CHECKOUT),
            "XDG_CACHE_HOME": str(folder / "c"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def parts_of(shown: str) -> dict[str, str]:
    """Return the sentences, the table of results and the rates of yes of what the terminal shows."""
    head, _, rest = "\n".join(map(str.rstrip, shown.splitlines())).partition("\nResults\n")
    sentences = head.partition("\n")[2]
    results = rest.partition("\nIn brackets")[0]
    rates = rest.partition("\nRate of yes per group\n")[2].partition("\nShares of yes")[0]
    tables = {"results": results, "rates": rates}
    lines = {name: [line for line in text.splitlines() if line.strip()] for name, text in tables.items()}
    return {"sentences": sentences, **{name: "\n".join(kept) for name, kept in lines.items()}}


def written(page: str, parts: Mapping[str, str]) -> str:
    """Return a page with its blocks as the run has them."""

    def block(found: re.Match[str]) -> str:
        shown = "\n…\n".join(parts[name.strip()] for name in found["parts"].split(","))
        lines = f"```console\n$ {COMMAND}\n…\n{shown}\n…\n```"
        return f"<!-- demonstration: {found['parts']} -->\n{lines}"

    return _BLOCK.sub(block, page)


def picture_says(picture: Path) -> str:
    """Return the table that a picture was drawn from."""
    from PIL import Image

    with Image.open(picture) as opened:
        return str(opened.info.get("table", ""))


def draw(page: Path, picture: Path, table: str) -> None:
    """Draw the first screen of a report as a PNG whose text is `table`."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        window = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        window.goto(page.as_uri())
        first = window.locator(".first").first.bounding_box()
        if first is None:
            raise SystemExit("the report has no results to draw")
        clip: Any = {"x": 0, "y": 0, "width": WIDTH, "height": first["y"] + first["height"] + 10}
        shot = window.screenshot(full_page=True, clip=clip)
        browser.close()
    text = PngImagePlugin.PngInfo()
    text.add_itxt("table", table)
    drawn = Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    drawn.save(picture, optimize=True, pnginfo=text)


def main() -> int:
    """Run the demonstration; write or check the pages and the picture."""
    parser = argparse.ArgumentParser(prog="python -m evals.demonstration", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a page differs")
    check = parser.parse_args().check
    with TemporaryDirectory(prefix="fwc-llm-demonstration-") as name:
        folder = Path(name)
        parts = parts_of(run(folder))
        texts = {page: written(page.read_text(encoding="utf-8"), parts) for page in PAGES}
        differing = [page for page, text in texts.items() if text != page.read_text(encoding="utf-8")]
        if check:
            differing += [PICTURE] if picture_says(PICTURE) != parts["results"] else []
            print("\n".join(f"{path} shows another run" for path in differing))
            return bool(differing)
        for page, text in texts.items():
            page.write_text(text, encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "fwc_llm", "report", "demo", "--no-rows"],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True,
        )  # fmt: skip
        draw((folder / "demo" / "report.html").resolve(), PICTURE, parts["results"])
    print(f"wrote {', '.join(path.name for path in (*PAGES, PICTURE))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
