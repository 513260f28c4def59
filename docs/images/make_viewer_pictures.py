"""Take the pictures of the viewer (`make pictures`): every page in light, dark and on a narrow screen.

The pages are those of the projects that the tests use, whose runs have fixed times. The clock of the browser is fixed,
too, so that pictures change only if pages do; the page of a running evaluation shows measured times.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.view.bookshop import RUNS  # noqa: E402 - the repository is not installed
from tests.view.browsers import chromium  # noqa: E402
from tests.view.opening import Server  # noqa: E402
from tests.view.places import PLACES, SUMMARIES  # noqa: E402
from tests.view.restaurant import BOOKING, make_restaurant  # noqa: E402

FOLDER = ROOT / "docs" / "images" / "viewer"
NOW = datetime(2026, 11, 15, 17, 0, tzinfo=UTC)
LIVE = "20261115-165940-000000008"
SHOWN_ROWS, ALL_ROWS = 17, 26
QUALITY = 72
TALLEST = 1_500
KINDS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 400, "height": 800}, "color_scheme": "light"},
}
"""Pictures in light show the whole page, the others what fits on the screen."""


def pages() -> dict[str, str]:
    """Name of each picture -> address."""
    shown = {name: address for name, (address, _) in PLACES.items() if name != "run-filtered"}
    return {**shown, "noise": SUMMARIES["judges"], "live": f"#/run/{LIVE}", "conversation": BOOKING}


@contextlib.contextmanager
def running(project: Path) -> Iterator[Path]:
    """A run that is being written: the beginning of another one, and its lock is held. Gives its directory."""
    finished, directory = (project / ".agentv" / "runs" / name for name in (RUNS["new-prompt"], LIVE))
    shutil.copytree(finished, directory)
    (directory / "labels.jsonl").unlink(missing_ok=True)
    manifest = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    manifest |= {
        "run_id": LIVE,
        "name": "nightly",
        "note": None,
        "status": "running",
        "started_at": "2026-11-15T16:59:40Z",
    }
    manifest["budget"] |= {"max_cost": 0.1, "max_judge_calls": 150, "spent_usd": 0.0, "judge_calls": 0}
    manifest["options"] |= {"max_cost": 0.1, "max_judge_calls": 150}
    for name in ("summary", "finished_at"):
        manifest.pop(name, None)
    (directory / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    rows = (directory / "results.jsonl").read_text(encoding="utf-8").replace(RUNS["new-prompt"], LIVE)
    (directory / "results.jsonl").write_text(
        "".join(rows.splitlines(keepends=True)[: SHOWN_ROWS - 5]), encoding="utf-8"
    )
    (directory / "rest").write_text(
        "".join(rows.splitlines(keepends=True)[SHOWN_ROWS - 5 : SHOWN_ROWS]), encoding="utf-8"
    )
    with (directory / "run.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
    shutil.rmtree(directory)


def arrive(directory: Path) -> None:
    """Write more rows of the run, if that was not done before."""
    rest = directory / "rest"
    if rest.exists():
        with (directory / "results.jsonl").open("a", encoding="utf-8") as rows:
            rows.write(rest.read_text(encoding="utf-8"))
        rest.unlink()


def take(page: Page, path: Path, *, whole: bool) -> None:
    """Save what the page shows. Text stays sharp at this quality, and files are half as large as PNG."""
    options: dict[str, Any] = {"format": "webp", "quality": QUALITY}
    if whole:
        width, height = page.evaluate("[innerWidth, document.documentElement.scrollHeight]")
        options["captureBeyondViewport"] = True
        options["clip"] = {"x": 0, "y": 0, "width": width, "height": min(TALLEST, height), "scale": 1}
    session = page.context.new_cdp_session(page)
    taken = session.send("Page.captureScreenshot", options)
    session.detach()
    path.write_bytes(base64.b64decode(taken["data"]))


def take_all(launched: Browser, servers: tuple[Server, Server], live: Path) -> None:
    for kind, options in KINDS.items():
        context = launched.new_context(**options, reduced_motion="reduce", locale="en-US", timezone_id="UTC")
        context.set_default_timeout(30_000)
        context.clock.set_fixed_time(NOW)
        for server in servers:
            server.log_in(context)
        for name, address in pages().items():
            server = servers[name == "conversation"]
            page = context.new_page()
            page.goto(f"{server.origin}/{address}")
            page.wait_for_function(
                "() => document.querySelector('main > *') && !document.querySelector('main').hasAttribute('aria-busy')"
            )
            if name == "compare-pair":  # rather a case that changed
                page.goto(f"{server.origin}/{pages()['compare']}")
                page.locator("[role=gridcell] a").first.click()
            if name == "live":
                page.wait_for_timeout(3_000)
                arrive(live)
                page.wait_for_timeout(2_000)
            page.wait_for_load_state("networkidle" if name != "live" else "load")
            page.wait_for_timeout(300)
            take(page, FOLDER / f"{name}-{kind}.webp", whole=kind == "light")
            page.close()
        context.close()


def main() -> int:
    program = chromium()
    if program is None:
        print("chromium is not installed. Install it, then run `make pictures` again.", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    os.environ["LOGNAME"] = "ada"  # who reviews
    with tempfile.TemporaryDirectory(prefix="agentv-picture-") as temporary:
        project = Path(temporary) / "bookshop"
        subprocess.run(
            [sys.executable, "-m", "tests.view.bookshop", str(project)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
        other = make_restaurant(Path(temporary) / "restaurant").root
        with (
            running(project) as live,
            Server(project) as server,
            Server(other) as second,
            sync_playwright() as playwright,
        ):
            launched = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--force-color-profile=srgb", "--hide-scrollbars"]
            )
            take_all(launched, (server, second), live)
            launched.close()
    total = sum(path.stat().st_size for path in FOLDER.glob("*.webp"))
    print(f"wrote {len(pages()) * len(KINDS)} pictures to {FOLDER.relative_to(ROOT)}, {total / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
