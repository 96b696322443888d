"""The notebooks run, cell by cell in one process, without a kernel of Jupyter."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.guard.engine.remembered import remembered_encoders
from tests.support.paths import ROOT
from tests.support.plots import light_plots

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
_MARK, _TEXT = "# %%", "# %% [markdown]"


def cells(path: Path) -> list[tuple[str, bool]]:
    """Text of each cell, after the header, and whether it is code."""
    _, _, body = path.read_text(encoding="utf-8").partition("# ---\n\n")
    found: list[list[str]] = []
    for line in body.splitlines():
        if line.startswith(_MARK):
            found.append([])
        found[-1].append(line)
    return [("\n".join(lines), not lines[0].startswith(_TEXT)) for lines in found]


def test_there_are_four_notebooks_and_none_is_stored_with_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "calibrate_and_read_the_report",
        "compare_scorers_and_models",
        "guard_your_rag",
        "what_your_model_knows",
    ]
    assert not list(NOTEBOOKS[0].parent.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_text_is_commented_and_the_last_cell_shows_something(path: Path) -> None:
    found = cells(path)

    assert found[0][0].splitlines()[1].startswith("# # ")
    for text, is_code in found:
        assert is_code or all(line.startswith("#") for line in text.splitlines() if line)
    text, is_code = found[-1]
    assert is_code
    assert isinstance(ast.parse(text).body[-1], ast.Expr)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
async def test_every_cell_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a coroutine, because Jupyter's kernel runs cells while its event loop runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "__main__"}

    with remembered_encoders(), light_plots():
        for text, is_code in cells(path):
            if is_code:
                exec(compile(text, path.name, "exec"), names)
