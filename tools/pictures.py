"""Make the pictures of the README, with Chromium and from real runs.

    python -m tools.pictures [NAME …] [--out docs/pictures]

Each page is shown as a visitor first sees it, 1,280 pixels wide, in a light and in a dark
scheme. Needs the development environment and Chromium. The diagram of the routes is drawn by
hand (`routes.svg`).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_WIDTH, _HEIGHT, _SCALE = 1280, 800, 1.5
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_COLOURS = 128
# Of the sample help desk.
_QUESTION = "What is the charge for getting rid of a wasps' nest by the door?"
# Milliseconds; a busy machine takes long.
_TIMEOUT = 120_000


@dataclass(frozen=True, slots=True)
class Shot:
    """What a picture shows.

    Attributes:
        page: makes the page in a folder and gives its address while the picture is taken.
        prepare: brings the page into the state to be shown; it gets Playwright's page.
    """

    page: Callable[[Path], AbstractContextManager[str]]
    prepare: Callable[[Any], None] = lambda page: None


def knowgate(*arguments: str | Path) -> None:
    """Run a command and raise where it fails."""
    subprocess.run([sys.executable, "-m", "knowgate", *map(str, arguments)], check=True)


def _demo(folder: Path) -> Path:
    """Run the demo once and return its folder."""
    out = folder / "knowgate-demo"
    if not out.exists():
        knowgate("demo", "--out", out)
    return out


@contextmanager
def report(folder: Path) -> Iterator[str]:
    """Make the report of the demo's help desk, of the scorer that its calibration chose."""
    (page,) = _demo(folder).glob("*/report.html")
    yield page.as_uri()


def _to_sliders(page: Any) -> None:
    slider = page.get_by_role("slider").first
    for _ in range(25):
        slider.press("ArrowLeft")
    page.evaluate("document.getElementById('what-if').closest('section').scrollIntoView()")


@contextmanager
def playground(folder: Path) -> Iterator[str]:
    """Serve the playground with the sample help desk and the policy of the demo."""
    policy = str(_demo(folder) / "policy.json")
    command = [sys.executable, "-m", "knowgate", "play", "--policy", policy, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().rsplit(maxsplit=1)[-1]
        finally:
            process.terminate()


def _ask(page: Any) -> None:
    for _ in range(2):  # the first question also loads what later ones need
        page.get_by_role("textbox", name="Question").fill(_QUESTION)
        page.get_by_role("button", name="Ask").click()
        page.wait_for_function(
            "() => document.getElementById('state').textContent === ''"
            " && document.getElementById('reply').textContent !== ''"
        )
    page.locator("mark").first.wait_for()
    page.mouse.move(0, 0)


# A picture of another page takes one more line.
SHOTS: dict[str, Shot] = {
    "playground": Shot(playground, _ask),
    "report": Shot(report),
    "what-if": Shot(report, _to_sliders),
}


def take(names: list[str], out: Path) -> list[Path]:
    """Take these pictures in both schemes.

    Args:
        names: some of `SHOTS`.
        out: folder, made where missing.

    Returns:
        The files, compressed to a few colours.
    """
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    installed = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    files = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        for name in names:
            shot = SHOTS[name]
            with shot.page(Path(folder)) as address:
                for scheme in _SCHEMES:
                    page = browser.new_page(
                        viewport={"width": _WIDTH, "height": _HEIGHT},
                        device_scale_factor=_SCALE,
                        color_scheme=scheme,
                    )
                    page.set_default_timeout(_TIMEOUT)
                    page.goto(address)
                    shot.prepare(page)
                    files.append(out / f"{name}-{scheme}.png")
                    page.screenshot(path=files[-1])
                    page.close()
                    compress(files[-1])
        browser.close()
    return files


def compress(path: Path) -> None:
    """Write the picture with few colours; text and lines need no more."""
    from PIL import Image

    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(SHOTS)}")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    found = parser.parse_args(arguments)
    if unknown := sorted(set(found.names) - SHOTS.keys()):
        parser.error(f"no such picture: {unknown[0]}")
    for path in take(found.names or list(SHOTS), found.out):
        print(f"{path} {path.stat().st_size // 1000} KB")


if __name__ == "__main__":
    main()
