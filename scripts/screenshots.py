#!/usr/bin/env python3
"""Takes the pictures of docs/img from three reports, with an installed Chromium and Pillow (which vLLM brings).

python scripts/screenshots.py runs/quickstart/report.html evals/after/report.html comparison/report.html
"""

import argparse
import io
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "img"
SIZES = {"desktop": (1280, 1500), "phone": (390, 1500)}
README = (1280, 1245)


def shoot(browser: Any, report: Path, size: tuple[int, int], scheme: str, target: Path, *, scroll_to: str = "") -> None:
    """Saves what is seen of a report, from its beginning or from a place further down."""
    page = browser.new_page(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
    page.goto(report.resolve().as_uri())
    if scroll_to:
        page.locator(".group > summary").nth(1).click()
        page.locator(scroll_to).evaluate("(place) => place.scrollIntoView()")
    page.wait_for_timeout(500)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(target, optimize=True)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")
    page.close()


def main() -> None:
    """All pictures: each report at two widths, in light and dark; the README's; rollouts of a training run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in ("training", "evaluation", "comparison"):
        parser.add_argument(kind, type=Path)
    reports = vars(parser.parse_args())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for kind, report in reports.items():
            for width, size in SIZES.items():
                for scheme in ("light", "dark"):
                    shoot(browser, report, size, scheme, FOLDER / f"{kind}-{width}-{scheme}.png")
        shoot(browser, reports["training"], README, "light", FOLDER / "quickstart.png")
        shoot(browser, reports["training"], (1280, 900), "light", FOLDER / "rollouts.png", scroll_to="#browser-title")
        browser.close()


if __name__ == "__main__":
    main()
