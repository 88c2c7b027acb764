"""Both demonstrations on all pages: `python -m evals.demonstration` runs them and writes what
pages show.

One is `fwc-llm eval recorded`, what a real model answered; the other `fwc-llm eval` without
options, a simulated census and a simulated model. From them come the console blocks that follow a
comment `<!-- recorded: PARTS -->` or `<!-- simulated: PARTS -->` on a page, and two pictures in
docs/pictures, whose text has the table that they show; beside them pictures of ten arms, an audit
and a published summary. `--check` writes nothing and ends with 1 where a page says something else;
it needs no browser. The pictures need Playwright, a chromium on the PATH, and Pillow (extra
`[plot]`).
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

CHECKOUT = Path(__file__).resolve().parents[1]
DOCS = CHECKOUT / "docs"

PAGES = (DOCS / "start.md", DOCS / "numbers.md")
COMMANDS = {
    "recorded": "fwc-llm eval recorded --out real",
    "simulated": "fwc-llm eval --out demo",
}
PICTURES = {name: DOCS / "pictures" / f"{name}.png" for name in COMMANDS}
WIDTH, HEIGHT = 1080, 900  # of the window, in its own pixels
TEN_ARMS = (
    "zero,random,strata,balanced,fwc,kmeans,kmedoids,"
    "zero+instruction,balanced+instruction,fwc+instruction"
)
COLOURS = 160  # text and lines of a page look the same with so few, at half the size
BLOCK = re.compile(
    r"<!-- (?P<run>recorded|simulated): (?P<parts>[a-z, ]+) -->\n```console\n.*?^```$",
    re.S | re.M,
)


def run(name: str, folder: Path) -> str:
    """Run a demonstration in `folder`, which gets its run; return what the terminal shows."""
    arguments = [sys.executable, "-m", "fwc_llm", *COMMANDS[name].split()[1:]]
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
    """Return the sentences and the table of what the terminal shows, without its first line."""
    _, _, rest = "\n".join(map(str.rstrip, shown.splitlines())).partition("\n")
    sentences, heading, table = re.split(r"\n((?: .*\n)?Asked )", rest, maxsplit=1)
    sentences = re.sub(
        r",\s\d{1,2}\s[A-Z][a-z]{2}\s\d{4}\.", "", sentences
    )  # the day of this run
    return {
        "sentences": sentences,
        "results": (heading + table).partition("\nGaps are in points")[0].strip("\n"),
    }


def written(page: str, parts: Mapping[str, Mapping[str, str]]) -> str:
    """Return a page with its blocks as the runs have them."""

    def block(found: re.Match[str]) -> str:
        name = found["run"]
        shown = "\n…\n".join(
            parts[name][part.strip()] for part in found["parts"].split(",")
        )
        lines = f"```console\n$ {COMMANDS[name]}\n…\n{shown}\n…\n```"
        return f"<!-- {name}: {found['parts']} -->\n{lines}"

    return BLOCK.sub(block, page)


def picture_says(picture: Path) -> str:
    """Return the table that a picture was drawn from."""
    from PIL import Image

    with Image.open(picture) as opened:
        return str(opened.info.get("table", ""))


def draw(pages: Mapping[Path, Path], tables: Mapping[Path, str]) -> None:
    """Draw the first screen of each page as a PNG, by its path; some have their table as text."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        for page, picture in pages.items():
            window = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
            )
            window.goto(page.resolve().as_uri())
            first = window.locator(".first")
            clip: Any = None
            if first.count() == 1:  # all of the table, however long
                box: Any = first.bounding_box()
                clip = {
                    "x": 0,
                    "y": 0,
                    "width": WIDTH,
                    "height": box["y"] + box["height"] + 10,
                }
            shot = window.screenshot(full_page=clip is not None, clip=clip)
            window.close()
            text = PngImagePlugin.PngInfo()
            text.add_itxt("table", tables.get(picture, ""))
            drawn = (
                Image.open(io.BytesIO(shot))
                .convert("RGB")
                .quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
            )
            drawn.save(picture, optimize=True, pnginfo=text)
        browser.close()


def pages_of(folder: Path) -> dict[Path, Path]:
    """Write the pages that are drawn: both demonstrations, ten arms, an audit, and a published
    summary.
    """
    from fwc_llm import load_task

    load_task("census").pool().to_csv(folder / "simulated-census.csv", index=False)
    audit = (
        "audit simulated-census.csv --answer income --positive yes --protected "
        "sex,race --no-rows"
    )
    for command in (
        "report real --no-rows -o recorded.html",
        "report demo --no-rows -o simulated.html",
        f"eval --shots {TEN_ARMS} --n-test 300 --out ten",
        "report ten --no-rows -o ten.html",
        f"{audit} --small keep --report audit.html --ll144 ll144.html",
    ):
        subprocess.run(
            [sys.executable, "-m", "fwc_llm", *command.split()],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
    others = {
        name: DOCS / "pictures" / f"{name}.png" for name in ("ten", "audit", "ll144")
    }
    return {
        folder / f"{name}.html": picture
        for name, picture in {**PICTURES, **others}.items()
    }


def main() -> int:
    """Run the demonstrations; write or check the pages and the pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.demonstration", description=__doc__
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a page differs"
    )
    check = parser.parse_args().check
    with TemporaryDirectory(prefix="fwc-llm-demonstration-") as name:
        folder = Path(name)
        parts = {name: parts_of(run(name, folder)) for name in COMMANDS}
        tables = {picture: parts[name]["results"] for name, picture in PICTURES.items()}
        texts = {
            page: written(page.read_text(encoding="utf-8"), parts) for page in PAGES
        }
        differing = [
            page
            for page, text in texts.items()
            if text != page.read_text(encoding="utf-8")
        ]
        if check:
            differing += [
                picture
                for picture, table in tables.items()
                if picture_says(picture) != table
            ]
            print("\n".join(f"{path} shows another run" for path in differing))
            return bool(differing)
        for page, text in texts.items():
            page.write_text(text, encoding="utf-8")
        draw(pages_of(folder), tables)
    print(f"wrote {', '.join(path.name for path in (*PAGES, *PICTURES.values()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
