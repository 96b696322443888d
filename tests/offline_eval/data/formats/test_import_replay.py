"""Logged replies as runs: the published counts, contexts by reference, what is refused."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import MissingDependencyError
from knowgate.offline_eval.data.embedding import Encoder
from knowgate.offline_eval.data.questions import PassageKind
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import OokbSuite
from tests.offline_eval.cli.commands import write_lines


def replayed_run(
    logs: Sequence[str | os.PathLike[str]],
    questions: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    passage: PassageKind = PassageKind.QUESTION_ANSWER,
    on_warning: Callable[[Any], object] | None = None,
) -> Path:
    """The folder of a run that holds the logged replies."""
    settings = OokbSuite.settings(
        questions=tuple(map(Path, questions)),
        replay=tuple(map(Path, logs)),
        passage=passage,
        judges=(),
    )
    suite = OokbSuite(encoder=_no_encoder)
    assert suite.cases(settings)
    for warning in suite.prepared.replay.warnings:
        if on_warning is not None:
            on_warning(warning)
    return run_suite(suite, settings, out).folder


def _no_encoder() -> Encoder:
    raise MissingDependencyError("logged replies are not searched")


# Per log: replies, abstentions, and tiers of what was not abstained.
_LOGGED = {
    "BTT direct basic": (55, 0, 22, 6, 27),
    "BTT basic_rag basic": (55, 32, 7, 2, 14),
    "BTT basic_rag conservative": (55, 46, 2, 1, 6),
    "BTT basic_rag opinion": (55, 34, 5, 1, 15),
    "BTT hyde basic": (55, 30, 7, 3, 15),
    "BTT hyde conservative": (55, 44, 2, 2, 7),
    "BTT hyde opinion": (55, 31, 6, 4, 14),
    "BTT long_context basic": (55, 19, 9, 4, 23),
    "BTT long_context conservative": (55, 41, 5, 0, 9),
    "BTT long_context opinion": (55, 29, 6, 3, 17),
    "CPF direct basic": (112, 3, 10, 13, 86),
    "CPF basic_rag basic": (112, 32, 12, 12, 56),
    "CPF basic_rag conservative": (112, 57, 9, 8, 38),
    "CPF basic_rag opinion": (112, 33, 12, 7, 60),
    "CPF hyde basic": (112, 33, 7, 7, 65),
    "CPF hyde conservative": (112, 56, 3, 10, 43),
    "CPF hyde opinion": (112, 31, 7, 7, 67),
}
# The published figures: abstained, then tier 1 and 2 of those that were not.

_QUESTIONS = [
    {"id": "a", "question": "Colour of the bus?", "answer": "Red."},
    {"id": "b", "question": "Colour of the tram?", "answer": "Blue."},
    {"id": "c", "question": "Colour of the ferry?", "answer": "Green."},
]


@pytest.fixture(scope="module")
def policybench(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RepliesRun:
    folder = shared_data / "policybench"
    logs = sorted((folder / "gpt-4o_runs").glob("*.jsonl"))
    questions = [folder / "questions" / f"{name}.json" for name in ("BTT", "CPF")]
    warnings: list[str] = []
    out = tmp_path_factory.mktemp("policybench") / "run"
    run = RepliesRun.read(replayed_run(logs, questions, out, on_warning=warnings.append))
    assert warnings == []
    return run


def _counts(run: RepliesRun) -> dict[str, tuple[int, ...]]:
    counted: dict[str, Counter[str]] = {}
    for judgement in run.judgements.values():
        assert judgement.judge == "given"
        reply = run.replies[judgement.reply_id]
        system = run.systems[reply.system_id]
        base = run.case_of(reply).knowledge_base.partition("_")[0]
        name = f"{base} {system.retrieval} {system.prompt}"
        counted.setdefault(name, Counter())[f"{judgement.criterion} {judgement.outcome}"] += 1
    return {
        name: (
            found["abstention yes"] + found["abstention no"],
            found["abstention yes"],
            *(found[f"factuality tier_{tier}"] for tier in (1, 2, 3)),
        )
        for name, found in counted.items()
    }


@pytest.mark.slow
def test_the_logged_counts_come_out_exactly(policybench: RepliesRun) -> None:
    assert _counts(policybench) == _LOGGED


def test_long_contexts_are_kept_by_what_they_lack(policybench: RepliesRun) -> None:
    long = [r for r in policybench.replies.values() if "long_context" in r.system_id]

    assert len(long) == 165
    for reply in long:
        own = policybench.question_of(reply).own_passage
        assert reply.context is not None
        assert (reply.context.kind, reply.context.passages) == ("all_but", (own,))
        assert len(policybench.context_passages(reply)) == 54


def _run(folder: Path, *lines: dict[str, Any], documents: bool = True, **more: Any) -> RepliesRun:
    log = write_lines(folder / "log.jsonl", lines)
    questions = [write_lines(folder / "kb.jsonl", _QUESTIONS)] if documents else []
    return RepliesRun.read(replayed_run([log], questions, folder / "run", **more))


def test_passages_stand_for_question_and_answer_by_default(tmp_path: Path) -> None:
    run = _run(tmp_path, {"id": "a", "response": "R", "context_ids": ["c", "b"]})

    (reply,) = run.replies.values()
    assert [passage.text for passage in run.context_passages(reply)] == [
        "Colour of the ferry?\nGreen.",
        "Colour of the tram?\nBlue.",
    ]
    assert run.case_of(reply).kind is CaseKind.LEFT_OUT
    assert run.question_of(reply).answer == "Red."
    assert reply.system_id == "replay·log"


def test_texts_in_a_context_become_passages_once(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        {"id": "a", "response": "R", "contexts": ["Trams  are blue."]},
        {"id": "b", "response": "R", "contexts": ["Trams are blue.", "Blue."]},
    )

    first, second = run.replies.values()
    assert [passage.text for passage in run.context_passages(first)] == ["Trams  are blue."]
    assert run.context_passages(second)[0] == run.context_passages(first)[0]
    assert len(run.passages) == 5


def test_a_failed_call_is_a_row_without_judgements(tmp_path: Path) -> None:
    run = _run(
        tmp_path, {"id": "a", "response": None, "abstained": "yes"}, {"id": "b", "reply": ""}
    )

    failed, empty = run.replies.values()
    assert failed.error is not None
    assert (failed.response, empty.response, empty.error) == (None, "", None)
    assert not run.judgements


def test_ids_that_two_documents_share_are_told_apart(tmp_path: Path) -> None:
    other = [{**one, "question": one["question"] + " Again?"} for one in _QUESTIONS]
    paths = [
        write_lines(tmp_path / "one.jsonl", _QUESTIONS),
        write_lines(tmp_path / "two.jsonl", other),
    ]
    logs = [
        write_lines(tmp_path / f"{name}_DIRECT_p.jsonl", [{"id": "a", "response": name}])
        for name in ("one", "two")
    ]

    run = RepliesRun.read(replayed_run(logs, paths, tmp_path / "run"))

    assert list(run.cases) == ["one/a/left_out", "two/a/left_out"]
    assert [run.question_of(reply).question for reply in run.replies.values()] == [
        "Colour of the bus?",
        "Colour of the bus? Again?",
    ]
    assert list(run.systems) == ["replay·direct·p"]
