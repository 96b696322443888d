"""The demo shows what it promises, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard import Guard
from knowgate.offline_eval.cli import _demo
from knowgate.offline_eval.data.questions import QuestionRecord
from knowgate.offline_eval.testbed import sample_knowledge_base_path
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines


@pytest.mark.slow
def test_the_best_scorer_is_certified_and_the_help_desk_abstains_from_missing_articles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every third article and two cheap scorers: all take half a minute.
    monkeypatch.setattr(_demo, "SCORERS", ("lexical", "bi_encoder"))
    rows = read_lines(sample_knowledge_base_path())
    articles = list(dict.fromkeys(row["source"] for row in rows))[::3]
    questions = write_lines(
        tmp_path / "some.jsonl", [row for row in rows if row["source"] in articles]
    )

    found = _demo.measured_and_calibrated(questions, tmp_path)
    answers = _demo.live_answers(
        Guard.load(found.policy, metrics=False), QuestionRecord.read(questions)
    )

    assert found.policy.guarantee is not None
    assert found.policy.guarantee.certified
    assert found.policy.guarantee.candidates == 2
    assert found.policy.scorer.kind == found.measured.name
    missing = [one for one in answers if one.situation == "missing"]
    assert ("in the knowledge base", "follow_context") in {
        (one.situation, one.route) for one in answers
    }
    assert sum(one.route == "abstain" for one in missing) >= 4
    for answer in answers:
        assert (answer.guarded != answer.unguarded) == (answer.route == "abstain")


def test_a_missing_model_is_told_in_one_line_before_anything_is_measured(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path))
    out = tmp_path / "out"
    found = knowgate("demo", "--model", "smollm2", "--out", str(out))
    refused(found, "smollm2", "knowgate models smollm2")
    assert not out.exists()
