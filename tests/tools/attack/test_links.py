"""Links and pipes in place of files: nothing behind a link is changed or read, nothing waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack import links
from tools.attack.run_files import RUNS, RunKind

SIGNALS: RunKind = next(kind for kind in RUNS if kind.name == "signals")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> links.LinkedRuns:
    return links.LinkedRuns(tmp_path_factory.mktemp("runs"), full=False, only="signals")


@pytest.mark.parametrize("way", sorted(links.WAYS))
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("rows.jsonl", SIGNALS.make),
        ("questions.jsonl", SIGNALS.make),
        ("rows.jsonl", SIGNALS.read[0]),
        ("calibrations.jsonl", SIGNALS.read[0]),
        ("calibration.json", SIGNALS.read[0]),
    ],
)
def test_no_command_waits_or_changes_what_a_link_leads_to(
    runs: links.LinkedRuns, name: str, command: str, way: str
) -> None:
    assert not runs.passes((SIGNALS, name, command, links.WAYS[way]))


def test_a_knowledge_base_holds_nothing_from_outside_of_its_folder(tmp_path: Path) -> None:
    assert [name for name, place in links.documents(tmp_path) if links.tells(place)] == []
