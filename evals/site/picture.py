"""The picture of a report in the README: `python -m evals.site.picture` writes docs/pictures/report.png.

It shows the results of the page that `fwc-llm eval` and `fwc-llm report` make of the demonstration: a
simulated census, a simulated model. It needs Playwright, a chromium on the PATH, and Pillow (extra `[plot]`).
"""

import io
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evals.site.pages import DOCS

PICTURE = DOCS / "pictures" / "report.png"
WIDTH = 1080  # of the window, in its own pixels
COLOURS = 160  # text and lines of a page look the same with so few, at half the size
# The page says at its top that it is simulated; the picture begins further down and says it too.
_LABEL = """
[...document.querySelectorAll("h2")].find(e => /Results/.test(e.textContent))
    .after(document.querySelector(".simulated"));
document.querySelector("svg").remove();  // the watermark, cut off where the window ends
"""


def draw(page: Path, picture: Path) -> None:
    """Draw the results of a report, from their heading to their charts, as a PNG."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        window = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        window.goto(page.as_uri())
        window.evaluate(_LABEL)
        top = window.locator("h2", has_text="Results").first.bounding_box()
        charts = window.locator("figure").first.bounding_box()
        if top is None or charts is None:
            raise SystemExit("the report has no results to draw")
        height = charts["y"] + charts["height"] - top["y"] + 20
        clip: Any = {"x": 0, "y": top["y"] - 30, "width": WIDTH, "height": height + 30}
        shot = window.screenshot(full_page=True, clip=clip)
        browser.close()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def main() -> int:
    """Run the demonstration and draw its report."""
    from fwc_llm import evaluate

    with TemporaryDirectory(prefix="fwc-llm-picture-") as folder:
        result = evaluate("census", "surrogate", out=Path(folder) / "demo", progress=False)
        draw(result.report().resolve(), PICTURE)
    print(f"wrote {PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
