"""Completion in three shells, terminals of 40 columns, and `NO_COLOR`."""

from __future__ import annotations

import pytest

from knowgate.offline_eval.cli._console import print_table
from tests.offline_eval.cli.commands import Knowgate


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns."""
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("narrow")
def test_no_figure_of_a_table_is_cut_at_40_columns(
    knowgate: Knowgate, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ("external_only with a long name", "0.123456789", "0.1 to 0.2", "1,234,567")
    print_table(("measure", "value", "interval", "n"), [cells])
    printed = " ".join(capsys.readouterr().out.split())
    assert all(cell in printed for cell in cells)
    assert "…" not in printed

    listed = knowgate("models").out
    assert "smollm2" in listed
    assert "…" not in listed
