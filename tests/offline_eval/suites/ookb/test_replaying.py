"""Logged replies as systems under test."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from knowgate.calibration import SelectiveCurve
from knowgate.guard import InputError, Route
from knowgate.guard.engine import BiEncoderScorer
from knowgate.offline_eval.data.questions import PassageKind
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings, OokbSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from tests.offline_eval.systems.asked import Comparison, answering_policy, calibrated_run, run
from tests.support.scripted_chat import ScriptedTextChat


def write_log(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def labels_of(found: RepliesRun, system: str) -> dict[str, int]:
    return dict(
        Counter(
            f"{one.criterion} {one.outcome}"
            for one in found.judgements.values()
            if found.replies[one.reply_id].system_id == system
        )
    )


LEFT_OUT = [
    # The first context has the words of its question, the second has nothing of them.
    {
        "id": "0-ü",
        "response": "At seven.",
        "contexts": ["The doors of the library open at seven."],
        "abstained": "no",
        "factuality": "tier_2",
    },
    {
        "id": "1-ü",
        "response": "At ten.",
        "contexts": ["Bread is baked at night."],
        "abstained": "no",
        "factuality": "tier_3",
    },
]


def test_a_guard_before_a_log_keeps_or_replaces_what_was_logged(tmp_path: Path) -> None:
    guard = calibrated_run(tmp_path)
    log = write_log(tmp_path / "m_runs" / "kb_BASIC_RAG_basic.jsonl", LEFT_OUT)

    run(tmp_path / "kb.jsonl", tmp_path / "out", Comparison(replay=(log,), guards=("off", guard)))

    found = RepliesRun.read(tmp_path / "out")
    free, guarded = "m·basic_rag·basic", "m·basic_rag·basic·guard-run"
    assert list(found.systems) == [free, guarded]
    assert all(system.replayed for system in found.systems.values())
    said = {name: row.response for name, row in found.replies.items()}
    assert said[f"{free}/0-ü/left_out"] == said[f"{guarded}/0-ü/left_out"] == "At seven."
    assert said[f"{free}/1-ü/left_out"] == "At ten."
    assert said[f"{guarded}/1-ü/left_out"] not in ("At ten.", None)
    assert found.replies[f"{guarded}/0-ü/left_out"].route is Route.FOLLOW_CONTEXT
    refused = found.replies[f"{guarded}/1-ü/left_out"]
    assert (refused.route, refused.calls) == (Route.ABSTAIN, 0)
    assert labels_of(found, free) == {
        "abstention no": 2,
        "factuality tier_2": 1,
        "factuality tier_3": 1,
    }
    assert labels_of(found, guarded) == {
        "abstention no": 1,
        "abstention yes": 1,
        "factuality tier_2": 1,
        "factuality NA": 1,
    }


def test_a_log_cannot_be_asked_how_sure_its_model_is(tmp_path: Path) -> None:
    calibrated_run(tmp_path)
    log = write_log(tmp_path / "log.jsonl", LEFT_OUT)
    policy = answering_policy(tmp_path / "answering.json")

    with pytest.raises(InputError, match="a log cannot be asked"):
        run(tmp_path / "kb.jsonl", tmp_path / "out", Comparison(replay=(log,), guards=(policy,)))

    assert not (tmp_path / "out").exists()


def test_with_its_model_at_hand_a_log_is_answered_from_its_own_direct_replies(
    tmp_path: Path,
) -> None:
    calibrated_run(tmp_path)
    near = write_log(
        tmp_path / "reader_runs" / "kb_BASIC_RAG_basic.jsonl",
        [{**row, "contexts": ["Bread is baked at night."]} for row in LEFT_OUT],
    )
    direct = write_log(
        tmp_path / "reader_runs" / "kb_DIRECT_basic.jsonl",
        [{"id": "0-ü", "response": "At six.", "abstained": "no", "factuality": "tier_1"}],
    )
    model = ScriptedTextChat(script=lambda messages: "At six.")
    comparison = Comparison(
        models={"reader": model},
        retrievals=("direct",),
        replay=(near, direct),
        guards=(answering_policy(tmp_path / "answering.json"),),
    )

    run(tmp_path / "kb.jsonl", tmp_path / "out", comparison, settings=OokbSettings(limit=2))

    found = RepliesRun.read(tmp_path / "out")
    assert "reader·direct·basic·logged·guard-answering" in found.systems
    guarded = "reader·basic_rag·basic·guard-answering"
    answered = found.replies[f"{guarded}/0-ü/left_out"]
    assert (answered.route, answered.response) == (Route.ANSWER, "At six.")
    assert answered.context is not None
    assert answered.context.kind == "none"
    # Nobody logged what the model says to the other question without context.
    lacking = found.replies[f"{guarded}/1-ü/left_out"]
    assert lacking.error is not None
    assert "hold no reply without context" in lacking.error.detail
    assert labels_of(found, guarded) == {"abstention no": 1, "factuality tier_1": 1}


# Logged abstentions, and tier 1 and 2 of the others, as published with the logs.
PUBLISHED = {
    "BTT_DIRECT_basic": (0, 28),
    "BTT_LONG_IN_CONTEXT_basic": (19, 13),
    "BTT_BASIC_RAG_conservative": (46, 3),
    "BTT_BASIC_RAG_opinion": (34, 6),
    "BTT_HYDE_RAG_conservative": (44, 4),
}


def test_logged_counts_come_out_as_published(shared_data: Path, tmp_path: Path) -> None:
    bench = shared_data / "policybench"
    logs = tuple(bench / "gpt-4o_runs" / f"{name}.jsonl" for name in PUBLISHED)

    run(
        bench / "questions" / "BTT.json",
        tmp_path / "out",
        Comparison(replay=logs),
        settings=OokbSettings(passage=PassageKind.QUESTION_ANSWER),
    )

    found = RepliesRun.read(tmp_path / "out")
    assert len(found.systems) == 5
    for path in logs:
        _, rest = path.stem.split("_", 1)
        retrieval, prompt = rest.rsplit("_", 1)
        names = {"BASIC_RAG": "basic_rag", "HYDE_RAG": "hyde", "LONG_IN_CONTEXT": "long_context"}
        system = f"gpt-4o·{names.get(retrieval, 'direct')}·{prompt}"
        labels = labels_of(found, system)
        right = labels.get("factuality tier_1", 0) + labels.get("factuality tier_2", 0)
        assert (labels.get("abstention yes", 0), right) == PUBLISHED[path.stem]


@pytest.fixture(scope="module")
def encoder() -> BiEncoderScorer:
    """The embedded encoder, loaded once."""
    return BiEncoderScorer()


def _run(shared_data: Path, out: Path, encoder: BiEncoderScorer, kind: PassageKind) -> MeasuredRun:
    questions = shared_data / "policybench" / "questions" / "BTT.json"
    settings = MeasureSettings(questions=questions, passage=kind, scorer="bi_encoder")
    run_suite(MEASURE, settings, out, [Instruments(encoder, encoder)])
    return MeasuredRun.read(out)


def _auroc(run: MeasuredRun) -> float | None:
    raw = {kind: [row.raw_relevance for row in run.rows if row.kind is kind] for kind in CaseKind}
    return SelectiveCurve.auroc(
        [value for value in raw[CaseKind.IN_KB] if value is not None],
        [value for value in raw[CaseKind.LEFT_OUT] if value is not None],
    )


@pytest.mark.slow
def test_answers_alone_are_told_apart_as_well_as_measured_before(
    shared_data: Path, tmp_path: Path, encoder: BiEncoderScorer
) -> None:
    run = _run(shared_data, tmp_path / "run", encoder, PassageKind.ANSWER)

    assert _auroc(run) == pytest.approx(0.821, abs=0.01)
    assert all(row.error is None for row in run.rows)


@pytest.mark.slow
def test_with_the_question_in_the_passage_it_is_easy(
    shared_data: Path, tmp_path: Path, encoder: BiEncoderScorer
) -> None:
    run = _run(shared_data, tmp_path / "run", encoder, PassageKind.QUESTION_ANSWER)

    found = _auroc(run)
    assert found is not None
    assert found >= 0.99
