"""Sample logs of the lm-evaluation-harness as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats import import_lm_eval
from knowgate.offline_eval.data.formats._run_parts import InteropWarning
from knowgate.offline_eval.run import (
    CaseKind,
    RepliesRun,
)
from tests.offline_eval.cli.commands import write_lines
from tests.offline_eval.data.formats.test_lm_eval_samples import CHOICE, GENERATION


def _run(folder: Path, *lines: dict[str, Any], **more: Any) -> RepliesRun:
    log = write_lines(folder / "samples_t.jsonl", lines)
    return RepliesRun.read(import_lm_eval([log], folder / "run", **more))


def test_samples_become_answerable_cases_with_judgements(tmp_path: Path) -> None:
    run = _run(tmp_path, GENERATION, CHOICE, model="m")

    assert [reply.response for reply in run.replies.values()] == ["Red.", "green"]
    assert {case.kind for case in run.cases.values()} == {CaseKind.IN_KB}
    assert [question.answer for question in run.questions.values()] == ["Red", "blue"]
    assert {
        one.judgement_id: (one.outcome, one.probability) for one in run.judgements.values()
    } == {
        "m/t/0/in_kb/exact_match/lm-eval": ("1", 1.0),
        "m/t/1/in_kb/acc/lm-eval": ("0", 0.0),
        "m/t/1/in_kb/acc_norm/lm-eval": ("1", 1.0),
    }


def test_a_second_filter_judges_the_same_reply(tmp_path: Path) -> None:
    second = {**GENERATION, "filter": "loose", "filtered_resps": ["R"], "exact_match": 0.5}

    run = _run(tmp_path, GENERATION, second)

    assert [reply.response for reply in run.replies.values()] == ["Red."]
    assert [(one.criterion, one.outcome) for one in run.judgements.values()] == [
        ("exact_match", "1"),
        ("exact_match,loose", "0.5"),
    ]


def test_a_second_filter_judges_a_reply_once(tmp_path: Path) -> None:
    second = {**GENERATION, "filter": "loose", "exact_match": 0.5}
    with pytest.raises(InputError, match="is answered twice"):
        _run(tmp_path, GENERATION, second, {**second, "exact_match": 0.0})


def test_two_models_answer_one_task(tmp_path: Path) -> None:
    logs = []
    for model in ("a__b", "c__d"):
        (tmp_path / model).mkdir()
        logs.append(write_lines(tmp_path / model / "samples_t.jsonl", [GENERATION]))

    run = RepliesRun.read(import_lm_eval(logs, tmp_path / "run"))

    assert list(run.systems) == ["a/b", "c/d"]
    assert (len(run.cases), len(run.replies)) == (1, 2)
    with pytest.raises(InputError, match="is answered twice"):
        import_lm_eval(logs, tmp_path / "other", model="m")
    assert not (tmp_path / "other").exists()


def test_a_context_becomes_a_passage_of_the_task(tmp_path: Path) -> None:
    doc = {"question": "Colour of the bus?", "context": "Buses are red."}
    arguments = [["Buses are red. Colour of the bus?", {}]]

    run = _run(tmp_path, {**GENERATION, "doc": doc, "arguments": arguments})

    (reply,) = run.replies.values()
    assert [(one.text, one.knowledge_base) for one in run.context_passages(reply)] == [
        ("Buses are red.", "t")
    ]


def test_requests_without_an_answer_are_warned_about_and_alone_refused(tmp_path: Path) -> None:
    rolling = {**GENERATION, "doc_id": 9, "arguments": [["text"]], "resps": [[-1.5]]}
    warnings: list[InteropWarning] = []

    run = _run(tmp_path, GENERATION, rolling, on_warning=warnings.append)

    assert len(run.replies) == 1
    assert [(one.kind, one.count) for one in warnings] == [("not_a_reply", 1)]
    with pytest.raises(InputError, match="these logs hold no reply"):
        import_lm_eval([write_lines(tmp_path / "samples_r.jsonl", [rolling])], tmp_path / "r")
