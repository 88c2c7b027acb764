"""A real browser for the tests of the page."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import missing


@pytest.fixture(scope="module")  # Playwright's event loop must not outlive this file
def browser() -> Iterator[Browser]:
    """Debian's chromium; without it the tests are skipped with a reason, in CI they fail."""
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("chromium is not on the PATH: the report is not tested in a browser")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield started
        started.close()
