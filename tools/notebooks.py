"""Make notebooks from their sources, run them in Jupyter's kernel, and store them with outputs.

python -m tools.notebooks [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "examples" / "notebooks"


def execute(source: Path, out: Path) -> float:
    """Run one notebook in a folder of its own; return the seconds that it took."""
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(source)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    jupytext.write(notebook, out / f"{source.stem}.ipynb")
    return time.perf_counter() - begin


def main() -> None:
    """Run all notebooks; the first cell that fails ends it with its error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("notebooks"), help="folder for them")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    # The kernel's folder is another one, so a relative path would lead elsewhere.
    os.environ["PYTHONPATH"] = str(ROOT)
    for source in sorted(SOURCES.glob("*.py")):
        seconds = execute(source, folder)
        print(f"{folder / source.stem}.ipynb  {seconds:.0f} s")


if __name__ == "__main__":
    main()
