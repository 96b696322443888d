"""What goes wrong is a row, is counted, and costs what it costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import GuardedAnswer
from knowgate.guard import Decision, Reason, Route
from knowgate.offline_eval.run import CallLimits, RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites.ookb import OokbSuite
from tests.offline_eval.cli.commands import read_lines
from tests.offline_eval.suites.ookb.toy import ToyEncoder, embed, write_toy_questions
from tests.offline_eval.systems.asked import Comparison, reader, run
from tests.support.deadlines import with_enough_time
from tests.support.scripted_chat import ScriptedError, ScriptedTextChat

ONE = OokbSuite.settings(limit=1, cases=(CaseKind.LEFT_OUT,))
ANSWER = GuardedAnswer("At nine.", Decision(route=Route.ABSTAIN, reason=Reason.NOTHING_RETRIEVED))


@pytest.mark.parametrize(
    "output", ["At nine.", AIMessage("At nine."), {"answer": "At nine.", "context": ["x"]}, ANSWER]
)
def test_the_reply_of_a_chain_is_found_in_what_it_puts_out(tmp_path: Path, output: object) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 2)
    chain: RunnableLambda[Any, Any] = RunnableLambda(lambda _asked: output)

    run(questions, tmp_path / "out", Comparison(models={"chain": chain}), settings=ONE)

    (row,) = RepliesRun.read(tmp_path / "out").replies.values()
    assert row.response == "At nine."


@pytest.mark.parametrize("output", [None, 42, ["a"], {"context": "x"}, {"answer": None}])
def test_what_is_no_reply_is_an_error_and_not_how_python_shows_it(
    tmp_path: Path, output: object
) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 2)
    chain: RunnableLambda[Any, Any] = RunnableLambda(lambda _asked: output)

    done = run(questions, tmp_path / "out", Comparison(models={"chain": chain}), settings=ONE)

    (row,) = RepliesRun.read(tmp_path / "out").replies.values()
    assert row.response is None
    assert row.error is not None
    assert row.error.type == "LanguageModelError"
    assert "put out" in row.error.detail
    assert (done.totals.failed, row.calls) == (1, 1)


def test_a_context_that_could_not_be_found_is_a_failed_reply(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 2)

    def broken(question: str) -> list[Document]:
        raise ValueError(question)

    retriever: RunnableLambda[Any, Any] = RunnableLambda(broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.offline_eval.systems.test_what_fails.RETRIEVER", retriever)
        comparison = Comparison(
            models={"reader": reader()},
            retrievals=("python:tests.offline_eval.systems.test_what_fails:RETRIEVER",),
        )
        done = run(questions, tmp_path / "out", comparison)

    found = RepliesRun.read(tmp_path / "out")
    assert done.totals.failed == len(found.replies) == 4
    assert all(row.error is not None for row in found.replies.values())


RETRIEVER: RunnableLambda[Any, Any] = RunnableLambda(lambda _question: [])


@pytest.mark.slow
def test_embedding_the_knowledge_base_takes_no_case_over_its_deadline(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 3)

    def check(seconds: float) -> None:
        def slowly(texts: Sequence[str]) -> Any:
            time.sleep(1.1 * seconds if len(texts) > 1 else 0.0)
            return embed(texts)

        out = tmp_path / str(seconds)
        done = run(
            questions,
            out,
            Comparison(models={"reader": reader()}),
            encoder=lambda: ToyEncoder(slowly),
            limits=CallLimits(timeout=seconds, max_attempts=1),
        )

        contexts = read_lines(out / "contexts.jsonl")
        assert all(found["error"] is None for found in contexts)
        assert done.totals.failed == 0

    with_enough_time(check)


def test_attempts_that_failed_are_counted_with_the_reply(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 2)
    outcomes = iter(["busy", "At nine.", "busy", "busy", "busy"])

    def script(_messages: object) -> str:
        said = next(outcomes)
        if said == "busy":
            raise ScriptedError
        return said

    model = ScriptedTextChat(script=script)

    run(
        questions,
        tmp_path / "out",
        Comparison(models={"m": model}, retrievals=("direct",)),
        settings=OokbSuite.settings(limit=2, cases=(CaseKind.LEFT_OUT,)),
        limits=CallLimits(max_concurrency=1, max_attempts=3),
    )

    first, second = RepliesRun.read(tmp_path / "out").replies.values()
    assert (first.response, first.calls) == ("At nine.", 2)
    assert (second.response, second.calls) == (None, 3)
