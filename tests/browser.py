"""Headless Chromium, with everything that a page says or asks for on record."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_MS = 30_000


def find_chromium() -> str | None:
    """The path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page of a browser.

    Attributes:
        page: Playwright's page.
        complaints: Console messages of any kind, and errors that nobody caught.
        requests: Addresses that were asked for, the page itself left out.
    """

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(LIMIT_MS)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> "Tab":
        """Opens a file from the disk."""
        self.page.goto(path.resolve().as_uri())
        self.requests = [url for url in self.requests if url != path.resolve().as_uri()]
        return self

    def shown(self) -> list[str]:
        """The problems that the browser of groups lists."""
        names: list[str] = self.page.locator("#browser .problem").all_inner_texts()
        return names

    def choose(self, name: str, value: str) -> "Tab":
        """Sets a filter."""
        field = self.page.locator(f"[data-filter={name}]")
        if name == "text":
            field.fill(value)
        else:
            field.select_option(value)
        return self

    def open_groups(self) -> "Tab":
        """Opens every group that is listed. Its answers are made a moment after the click, when the browser tells."""
        from playwright.sync_api import expect

        for summary in self.page.locator(".group > summary").all():
            summary.click()
        expect(self.page.locator(".group:not(:has(.body))")).to_have_count(0, timeout=LIMIT_MS)
        return self

    def draw_everything(self) -> "Tab":
        """Scrolls through the page, as charts are drawn when they come into view."""
        for figure in self.page.locator("figure[data-chart]").all():
            figure.scroll_into_view_if_needed()
            figure.locator("canvas").wait_for()
        return self


@contextlib.contextmanager
def open_chromium() -> Iterator[Any]:
    """A running browser; root needs `--no-sandbox`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=2 * LIMIT_MS
        )
        try:
            yield browser
        finally:
            browser.close()
