"""A wheel built from a clean checkout has everything that the checkout has."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("guard", "calibration", "adapters", "offline_eval")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the tracked files alone, built without network."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        ["git", "checkout-index", "--all", f"--prefix={folder}/checkout/"], cwd=ROOT, check=True
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)],
        cwd=folder / "checkout",
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_every_tracked_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--", *PACKAGES, "knowgate"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    tracked = {
        name if name.startswith("knowgate/") else f"knowgate/{name}"
        for name in listed
        if name not in {f"knowgate/{link}" for link in PACKAGES}
    }

    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())

    assert tracked - packed == set()


def test_the_wheel_runs_where_it_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")

    found = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import sys; sys.path[:0] = sys.argv[1:2]; sys.path += sys.argv[2:]\n"
            "import knowgate.offline_eval.cli, knowgate.guard\n"
            "print(knowgate.guard.__file__)",
            str(tmp_path / "site"),
            *[entry for entry in sys.path if entry.endswith("site-packages")],
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()

    assert Path(found) == tmp_path / "site" / "knowgate" / "guard" / "__init__.py"
