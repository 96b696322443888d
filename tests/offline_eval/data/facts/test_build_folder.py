"""The folder of a build: one build at a time, and no document of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from knowgate.guard import InputError
from knowgate.offline_eval.data.facts import BuildSettings, build_questions
from knowgate.offline_eval.data.facts.build import BuildTotals
from tests.offline_eval.cli.commands import read_lines
from tests.support.scripted_chat import ScriptedChat
from tests.support.scripted_facts import scripted_facts

SETTINGS = BuildSettings(model="scripted")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Two documents of three sentences each."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rules.txt").write_text(
        "Keep left on every road in town. Stop at the red light for 30 seconds. "
        "Give way to all pedestrians."
    )
    (folder / "fees.txt").write_text(
        "A licence costs fifty dollars. A test costs twenty dollars. Parking is free on Sundays."
    )
    return folder


def build(documents: Path, out: Path, chat: ScriptedChat) -> BuildTotals:
    return build_questions([documents], out, model=chat, settings=SETTINGS)


def test_two_builds_at_once_are_told_apart_while_one_asks(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "kb"
    refusals: list[str] = []

    def script(messages: Sequence[BaseMessage]) -> Mapping[str, Any]:
        with pytest.raises(InputError, match="another process is writing") as refused:
            build_questions([documents / "rules.txt"], out)
        refusals.append(str(refused.value))
        return scripted_facts(messages)

    totals = build(documents, out, ScriptedChat(script=script))

    assert refusals
    assert (totals.questions, len(read_lines(out / "documents.jsonl"))) == (6, 2)
