"""Models × prompts × retrievals × guards, asked about cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import Guard, Policy, Route
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.run import CallLimits, RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplyRow
from knowgate.offline_eval.suites.ookb import OokbSuite
from knowgate.offline_eval.systems.plan import load_system_prompt
from tests.offline_eval.systems.asked import (
    Comparison,
    GreedyReader,
    answering_policy,
    calibrated_run,
    read_the_passages,
    reader,
    run,
)
from tests.support.scripted_chat import ScriptedError, ScriptedTextChat


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`kb.jsonl` of 40 questions, the calibrated `run` over it; only to be read."""
    folder = tmp_path_factory.mktemp("systems")
    calibrated_run(folder)
    return folder


def always(found: list[Document]) -> RunnableLambda[Any, Any]:
    """A retriever that finds the same whatever it is asked."""

    def retrieve(question: str) -> list[Document]:
        del question
        return found

    return RunnableLambda(retrieve)


def rows_of(found: RepliesRun, system: str) -> dict[str, ReplyRow]:
    return {row.case_id: row for row in found.replies.values() if row.system_id == system}


def test_left_out_questions_never_see_their_own_passage(workplace: Path, tmp_path: Path) -> None:
    run(workplace / "kb.jsonl", tmp_path / "out", Comparison(models={"reader": reader()}))
    found = RepliesRun.read(tmp_path / "out")

    for row in found.replies.values():
        case, question = found.case_of(row), found.question_of(row)
        assert row.context is not None
        held = question.own_passage in row.context.passages
        assert row.error is None
        if case.kind is CaseKind.LEFT_OUT:
            assert not held
            assert row.response == "I do not know."
            assert row.citation == "none"
        elif held:
            # The reader found it, and named where it stood.
            assert row.response == question.passage
            assert row.context.passages[int(row.citation or "0") - 1] == question.own_passage
    assert sum(row.response != "I do not know." for row in found.replies.values()) > 30


def test_a_guarded_system_says_what_the_guarded_chain_would(
    workplace: Path, tmp_path: Path
) -> None:
    prompt, model = load_system_prompt("basic"), reader()

    def fill(given: dict[str, Any]) -> str:
        texts = [document.page_content for document in given["documents"]]
        return prompt.filled(given["question"], texts)

    comparison = Comparison(models={"reader": model}, guards=("off", workplace / "run"))
    run(workplace / "kb.jsonl", tmp_path / "out", comparison)
    found = RepliesRun.read(tmp_path / "out")
    policy = Policy.load(workplace / "policy.json")
    guard = Guard(policy, scorer=LexicalScorer(), metrics=False)
    free = rows_of(found, "reader·basic_rag·basic")

    routes = set()
    for row in rows_of(found, "reader·basic_rag·basic·guard-run").values():
        context = free[row.case_id].context
        assert context is not None
        found_texts = [Document(found.passages[name].text) for name in context.passages]
        chain = GuardedRAG(
            guard=guard, retriever=always(found_texts), with_context=RunnableLambda(fill) | model
        )
        answer = chain.invoke(found.question_of(row).question)
        assert row.route is answer.decision.route
        assert row.relevance == answer.decision.relevance
        assert row.response == answer.answer.partition("\nCitation:")[0]
        assert (row.calls == 0) == answer.abstained
        routes.add(row.route)
    assert routes == {Route.FOLLOW_CONTEXT, Route.ABSTAIN}


def test_a_guard_decides_on_the_nearest_passages_of_a_long_context(
    workplace: Path, tmp_path: Path
) -> None:
    comparison = Comparison(
        models={"reader": reader()},
        retrievals=("long_context", "basic_rag"),
        guards=("off", workplace / "run"),
    )

    run(workplace / "kb.jsonl", tmp_path / "out", comparison)

    found = RepliesRun.read(tmp_path / "out")
    long = rows_of(found, "reader·long_context·basic·guard-run")
    near = rows_of(found, "reader·basic_rag·basic·guard-run")
    assert {name: row.relevance for name, row in long.items()} == {
        name: row.relevance for name, row in near.items()
    }
    followed = [row for row in long.values() if row.route is Route.FOLLOW_CONTEXT]
    assert followed
    for row in followed:
        assert row.context is not None
        assert row.context.kind == "all_but"
        gone = int(found.case_of(row).kind is CaseKind.LEFT_OUT)
        assert len(found.context_passages(row)) == 40 - gone


def test_a_greedy_model_is_not_asked_one_thing_twice(workplace: Path, tmp_path: Path) -> None:
    model = GreedyReader(script=read_the_passages)
    comparison = Comparison(models={"greedy": model}, guards=("off", workplace / "run"))

    done = run(workplace / "kb.jsonl", tmp_path / "out", comparison)

    lines = (tmp_path / "out" / "replies.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    reused = [row for row in rows if row.get("reused")]
    assert reused
    assert all(row["calls"] == 0 and row["response"] for row in reused)
    assert model.calls == done.totals.calls == sum(row["calls"] for row in rows)
    found = RepliesRun.read(tmp_path / "out")
    free = rows_of(found, "greedy·basic_rag·basic")
    guarded = rows_of(found, "greedy·basic_rag·basic·guard-run").values()
    passed = [row for row in guarded if row.route is Route.FOLLOW_CONTEXT]
    assert all(free[row.case_id].response == row.response for row in passed)


def test_what_fails_for_good_is_a_row_and_the_rest_goes_on(workplace: Path, tmp_path: Path) -> None:
    model = reader(failure_rate=0.6, seed=3)
    limits = CallLimits(max_attempts=1)

    done = run(
        workplace / "kb.jsonl",
        tmp_path / "out",
        Comparison(models={"reader": model}),
        limits=limits,
    )

    found = RepliesRun.read(tmp_path / "out")
    failed = [row for row in found.replies.values() if row.error is not None]
    assert done.totals.failed == len(failed) == model.failed_calls > 0
    assert len(found.replies) == 80
    assert {row.error.type for row in failed if row.error} == {ScriptedError.__name__}
    assert all(row.response is None and row.context is not None for row in failed)


def test_a_chain_of_the_users_own_brings_its_own_prompt(workplace: Path, tmp_path: Path) -> None:
    given: list[dict[str, Any]] = []

    def chain(asked: dict[str, Any]) -> str:
        given.append(asked)
        return f"I read {len(asked['documents'])} documents."

    comparison = Comparison(
        models={"chain": RunnableLambda(chain)},
        prompts=("basic", "opinion"),
        retrievals=("basic_rag", "direct"),
    )

    run(workplace / "kb.jsonl", tmp_path / "out", comparison, settings=OokbSuite.settings(limit=1))

    found = RepliesRun.read(tmp_path / "out")
    assert list(found.systems) == ["chain·basic_rag", "chain·direct"]
    said = {row.reply_id: (row.response, row.calls) for row in found.replies.values()}
    assert said["chain·basic_rag/0-ü/in_kb"] == ("I read 5 documents.", 1)
    assert said["chain·direct/0-ü/in_kb"] == ("I read 0 documents.", 1)
    assert set(given[0]) == {"question", "context", "documents"}


def test_contexts_are_kept_to_what_a_small_model_can_read(workplace: Path, tmp_path: Path) -> None:
    settings = OokbSuite.settings(limit=3, context_chars=100)

    run(
        workplace / "kb.jsonl",
        tmp_path / "out",
        Comparison(models={"r": reader()}),
        settings=settings,
    )

    found = RepliesRun.read(tmp_path / "out")
    sizes = [
        [len(passage.text) for passage in found.context_passages(row)]
        for row in found.replies.values()
    ]
    assert all(sum(lengths) <= 100 for lengths in sizes)
    assert {len(lengths) for lengths in sizes} == {2}


def test_answers_from_memory_are_asked_without_context_and_counted(
    workplace: Path, tmp_path: Path
) -> None:
    policy = answering_policy(tmp_path / "policy.json")
    model = ScriptedTextChat(script=lambda messages: "At nine.")
    comparison = Comparison(models={"reader": model}, guards=(policy,))

    run(
        workplace / "kb.jsonl",
        tmp_path / "out",
        comparison,
        settings=OokbSuite.settings(limit=1, cases=(CaseKind.LEFT_OUT,)),
    )

    [row] = RepliesRun.read(tmp_path / "out").replies.values()
    assert row.route is Route.ANSWER
    assert row.context is not None
    assert row.context.kind == "none"
    assert row.confidence == 1.0
    # One greedy answer, samples until they have decided, and the answer itself.
    assert row.calls == model.calls > 2
    assert row.input_tokens is not None
    assert row.input_tokens > 0
