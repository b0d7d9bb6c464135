#!/usr/bin/env python3
"""How large is the report of a long run, how long does it take to write, and how long to open?

    python benchmarks/report.py [--steps 10000] [--problems 16] [--group-size 8] [--characters 1400]

The run is made up: its text is as long as is asked for (2.2 GB of rollouts by default, in the folder for temporary
files). Prints one JSON line: CPU seconds of the first report and of the next one, which finds what the first one kept;
the page's size; and the median seconds until an installed Chromium shows the first chart and the rollouts.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import Tab, find_chromium, open_chromium
from report_folders import write_long_run

from rloo_verify.report import write_report
from rloo_verify.runlog import RunReader

SENTENCE = "So 347+585=932 because of carrying. "
OPENINGS = 5


def writing_seconds(run: Path) -> float:
    """CPU seconds of one report."""
    started = time.process_time()
    write_report(RunReader(run))
    return round(time.process_time() - started, 1)


def opening_seconds(report: Path) -> list[float]:
    """Wall seconds until the page can be read, sorted; the first opening of a browser is not counted."""
    seconds = []
    with open_chromium() as browser:
        for _ in range(OPENINGS + 1):
            tab = Tab(browser)
            started = time.perf_counter()
            tab.open(report)
            tab.page.locator("canvas").first.wait_for()
            tab.page.locator("#browser .problem").first.wait_for()
            seconds.append(round(time.perf_counter() - started, 2))
            tab.page.close()
    return sorted(seconds[1:])


def main() -> None:
    """Makes the run, writes its report twice, opens it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--problems", type=int, default=16, help="of a step")
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--characters", type=int, default=1400, help="of an answer")
    settings = parser.parse_args()
    text = (SENTENCE * (settings.characters // len(SENTENCE) + 1))[: settings.characters]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "long"
        write_long_run(run, settings.steps, problems=settings.problems, group_size=settings.group_size, text=text)
        rollouts = sum(file.stat().st_size for file in (run / "rollouts").iterdir())
        first, next_one = writing_seconds(run), writing_seconds(run)
        report = run / "report.html"
        result = {
            "rollouts_mb": round(rollouts / 1e6),
            "page_mb": round(report.stat().st_size / 1e6, 1),
            "first_cpu_seconds": first,
            "next_cpu_seconds": next_one,
        }
        if find_chromium():
            seconds = opening_seconds(report)
            result |= {"opening_seconds": statistics.median(seconds), "slowest_opening_seconds": seconds[-1]}
        print(json.dumps(result))


if __name__ == "__main__":
    main()
