"""The demo shows what it promises, end to end; `knowgate kg generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph
import pytest

import knowgate.offline_eval.cli._kg
from knowgate.guard import Guard
from knowgate.offline_eval.cli import _demo
from knowgate.offline_eval.data.questions import QuestionRecord
from knowgate.offline_eval.testbed import sample_knowledge_base_path
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines
from tests.offline_eval.data.graph.endpoint_server import Endpoint, serving


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
    missing = [one for one in answers if one["situation"] == "missing"]
    assert ("in the knowledge base", "follow_context") in {
        (one["situation"], one["route"]) for one in answers
    }
    assert sum(one["route"] == "abstain" for one in missing) >= 4
    for answer in answers:
        assert (answer["guarded"] != answer["unguarded"]) == (answer["route"] == "abstain")


def test_a_missing_model_is_told_in_one_line_before_anything_is_measured(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path))
    out = tmp_path / "out"
    found = knowgate("demo", "--model", "smollm2", "--out", str(out))
    refused(found, "smollm2", "knowgate models smollm2")
    assert not out.exists()


assert knowgate.offline_eval.cli._kg.kg_app


@pytest.mark.slow
def test_the_microworld_becomes_a_set_that_the_suite_reads(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    said = knowgate(
        "kg", "generate", "microworld", "--out", folder, "--lang", "en,zh", "--per-type", 100
    )
    assert said.code == 0
    assert "en: 600 questions" in said.out
    assert "note: " not in said.out
    said = knowgate("eval", "uaqfact", "--data", folder, "--dry-run", "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert found["total"] == {"en": 600, "zh": 600}
    assert found["counts"]["task3"]["zh"]["time"] == {"ua": 100, "ab": 100}


@pytest.mark.enable_socket
def test_a_password_in_an_address_is_not_shown(knowgate: Knowgate, tmp_path: Path) -> None:
    with serving(Endpoint(pyoxigraph.Store())) as endpoint:
        address = endpoint.url.replace("//", "//me:secret@")
        said = knowgate(
            "kg", "generate", address, "--out", tmp_path / "set", "--endpoint", "pause=0"
        )
    assert said.code == 2
    assert "gives no questions" in said.err
    assert "secret" not in said.err + said.out
