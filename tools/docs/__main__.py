"""`python -m tools.docs [PAGE ...]`: run every command and every Python line of README.md and docs/*.md.

Each page runs from top to bottom in a folder of its own, two pages side by side. Trainings are shortened,
corpora that are not on this machine are not downloaded. Skipped commands are listed with the reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.docs.fixtures import Fixtures, absent_corpora
from tools.docs.one_page import Run, Step, run_page
from tools.docs.pages import Block, PageError, blocks_of

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the pages, print a report, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("pages", nargs="*", help="such as README.md docs/training.md; all of them by default")
    parser.add_argument("--jobs", type=int, default=2, help="how many pages run side by side (default: 2)")
    parser.add_argument(
        "--keep", type=Path, help="a new folder for what the pages make (default: thrown away)"
    )
    asked = parser.parse_args()
    names = asked.pages or [
        "README.md",
        *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
    ]
    try:
        pages = {name: blocks_of((ROOT / name).read_text(encoding="utf-8"), name) for name in names}
    except (PageError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    folder = (asked.keep or Path(tempfile.mkdtemp(prefix="test-docs-"))).resolve()
    try:
        done = _run(pages, folder, asked.jobs)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    finally:
        if asked.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return _report(done, time.monotonic() - begun)


def _run(pages: dict[str, list[Block]], folder: Path, jobs: int) -> dict[str, list[Step]]:
    environment = _environment()
    fixtures = Fixtures(folder / "made", environment, absent_corpora(environment))
    runs: list[Run] = []

    def one(name: str) -> list[Step]:
        here, log = folder / name / "reader", folder / name / "log"
        here.mkdir(parents=True)
        log.mkdir()
        run = Run(here, log, environment, fixtures)
        runs.append(run)
        return run_page(pages[name], run, _tell)

    # The page with most to do first, so that the two lanes end together.
    longest = sorted((name for name in pages if pages[name]), key=lambda name: -len(pages[name]))
    with ThreadPoolExecutor(jobs) as lanes:
        asked = [lanes.submit(one, name) for name in longest]
        try:
            return {name: page.result() for name, page in zip(longest, asked, strict=True)}
        except KeyboardInterrupt:
            lanes.shutdown(wait=False, cancel_futures=True)
            for run in runs:  # the shells are no children of the terminal, so Ctrl-C does not reach them
                run.stopped = True
                run.shell.kill()
            raise


def _environment() -> dict[str, str]:
    """The reader's: the environment in use on the PATH, a plain wide terminal, one core for each page."""
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])),
        "COLUMNS": "120",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
    }
    return os.environ | own


def _tell(step: Step) -> None:
    word = "FAILED " if step.failed else "skipped" if step.skipped else "ran    "
    print(f"{word} {step.seconds:6.1f} s  {step.where}  {step.text.splitlines()[0]}", flush=True)


def _report(done: dict[str, list[Step]], seconds: float) -> int:
    steps = [step for page in done.values() for step in page]
    print("\nSlowest:")
    for step in sorted(steps, key=lambda step: -step.seconds)[:10]:
        print(f"  {step.seconds:6.1f} s  {step.where}  {step.text.splitlines()[0]}")
    if skipped := [step for step in steps if step.skipped]:
        print("\nSkipped:")
        for step in skipped:
            print(f"  {step.where}  {step.text.splitlines()[0]}\n      {step.skipped}")
    failed = [step for step in steps if step.failed]
    for step in failed:
        print(f"\nFAILED {step.where}\n  {step.text}\n{step.failed}")
    print("\nPage, seconds, run, skipped, failed:")
    for name, page in done.items():
        counts = (sum(1 for step in page if not step.skipped), sum(bool(step.skipped) for step in page))
        lost = sum(bool(step.failed) for step in page)
        print(f"  {name:<32}{sum(step.seconds for step in page):6.0f} {counts[0]:4} {counts[1]:4} {lost:4}")
    print(
        f"{len(steps) - len(skipped)} run, {len(skipped)} skipped, {len(failed)} failed in {seconds:.0f} s."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
