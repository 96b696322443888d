"""Contexts of a run: found once, paid for once, and the user's own retriever."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites.ookb import OokbSuite
from knowgate.offline_eval.systems.comparison import Systems
from knowgate.offline_eval.systems.plan import Case
from knowgate.offline_eval.systems.replying import Replier
from tests.offline_eval.suites.ookb.toy import write_toy_questions
from tests.offline_eval.systems.asked import Comparison, calibrated_run, read_the_passages, run
from tests.support.scripted_chat import ScriptedTextChat


def writes_and_reads(messages: Sequence[BaseMessage]) -> str:
    """Writes a hypothetical passage where it is asked for one, and reads otherwise."""
    prompt = messages[-1].text
    if "<passage>" in prompt:
        return "<passage>The bakery opens at 12 — every day.</passage>"
    return read_the_passages(messages)


MADE_UP = ["Who painted these frescoes?", "Which architect drew our staircase?"]


def makes_up(messages: Sequence[BaseMessage]) -> str:
    """Makes up two questions, finds none of them answered, and reads otherwise."""
    prompt = messages[-1].text
    if "<question>" in prompt:
        return "".join(f"<question>{one}</question>" for one in MADE_UP)
    if "<answerable>" in prompt:
        return "Nothing of it stands there. <answerable>no</answerable>"
    return "I do not know."


def found_for(question: str) -> list[Document]:
    """A retriever that finds the harbour first, and a text that no base holds."""
    del question
    return [
        Document("The harbour opens at 8 — every day, “always”."),
        Document("Harbours are wet."),
        Document("The market opens at 10 — every day, “always”."),
    ]


def test_what_hyde_writes_is_paid_for_by_one_system(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 8)
    model = ScriptedTextChat(script=writes_and_reads)
    comparison = Comparison(models={"m": model}, prompts=("basic", "opinion"), retrievals=("hyde",))

    done = run(questions, tmp_path / "out", comparison)

    rows = RepliesRun.read(tmp_path / "out").replies.values()
    assert {row.system_id: row.calls for row in rows} == {"m·hyde·basic": 2, "m·hyde·opinion": 1}
    assert model.calls == done.totals.calls == 16 * 3


def test_texts_that_only_the_users_retriever_finds_are_kept_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 8)
    (tmp_path / "mine.py").write_text(
        "from langchain_core.runnables import RunnableLambda\n"
        "from tests.offline_eval.systems.test_retrieving import found_for\n"
        "def make():\n    return RunnableLambda(found_for)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    comparison = Comparison(
        models={"m": ScriptedTextChat(script=read_the_passages)}, retrievals=("python:mine:make",)
    )

    for _ in range(2):
        run(questions, tmp_path / "out", comparison, settings=OokbSuite.settings(limit=2))

    found = RepliesRun.read(tmp_path / "out")
    texts = {
        row.case_id: [passage.text for passage in found.context_passages(row)]
        for row in found.replies.values()
    }
    assert "Harbours are wet." in texts["0-ü/left_out"]
    # The question about the harbour does not get to see its own passage.
    assert [text[:11] for text in texts["1-ü/left_out"]] == ["Harbours ar", "The market "]
    assert [text[:11] for text in texts["1-ü/in_kb"]] == [
        "The harbour",
        "Harbours ar",
        "The market ",
    ]
    [outside] = [p for p in found.passages.values() if not p.knowledge_base]
    assert outside.text == "Harbours are wet."


def test_what_makes_replies_travels_to_other_processes(tmp_path: Path) -> None:
    guard = calibrated_run(tmp_path, 20)
    systems = Systems.of(("embedded",), guards=("off", guard))
    case = Case("q/in_kb", "q", CaseKind.IN_KB, "Who?", "p")

    factory = pickle.loads(pickle.dumps(partial(Replier, systems)))
    items = pickle.loads(pickle.dumps(systems.items({"kb": [case]})))

    assert factory.args[0].guards["run"].policy == systems.guards["run"].policy
    assert [item.reply_id for item in items] == [
        "embedded·basic_rag·basic/q/in_kb",
        "embedded·basic_rag·basic·guard-run/q/in_kb",
    ]


def test_made_up_questions_are_asked_and_made_up_once(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 10)
    model = ScriptedTextChat(script=makes_up)
    settings = OokbSuite.settings(cases=(CaseKind.LEFT_OUT, CaseKind.SYNTHETIC))
    comparison = Comparison(models={"m": model})
    run(questions, tmp_path / "out", comparison, settings=settings)
    found = RepliesRun.read(tmp_path / "out")
    before, asked = (tmp_path / "out" / "manifest.json").read_bytes(), model.calls

    run(questions, tmp_path / "out", comparison, settings=settings)

    made_up = [case for case in found.cases.values() if case.kind is CaseKind.SYNTHETIC]
    assert [found.questions[case.question_id].question for case in made_up] == MADE_UP
    assert all(case.knowledge_base == "kb" for case in made_up)
    assert len(found.replies) == 10 + 2
    assert model.calls == asked
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
