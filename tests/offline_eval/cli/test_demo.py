"""The demo shows what it promises, end to end, with the real scorer and the real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowgate.calibration.risk import Leak
from knowgate.guard import Guard, Route
from knowgate.guard.matching import same_answer
from knowgate.offline_eval.cli import _demo
from knowgate.offline_eval.data.questions import PassageKind, QuestionRecord
from knowgate.offline_eval.policies import Calibrated
from knowgate.offline_eval.testbed import sample_knowledge_base_path
from tests.guard.engine.remembered import remembered_encoders
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with remembered_encoders():
        yield tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def questions(folder: Path) -> Path:
    """Every third article in the place of all, which take half a minute."""
    rows = read_lines(sample_knowledge_base_path())
    articles = list(dict.fromkeys(row["source"] for row in rows))[::3]
    return write_lines(folder / "some.jsonl", [row for row in rows if row["source"] in articles])


@pytest.fixture(scope="module")
def city(folder: Path, questions: Path) -> Calibrated:
    return _demo.measured_and_calibrated(
        questions, folder, _demo.SCORERS, Leak(_demo.RISK), passage=PassageKind.TITLED
    )


def test_the_best_of_the_scorers_is_certified(city: Calibrated) -> None:
    assert city.policy.guarantee is not None
    assert city.policy.guarantee.certified
    assert city.policy.guarantee.candidates == len(_demo.SCORERS)
    assert city.policy.scorer.kind == city.measured.name


def test_the_help_desk_follows_some_articles_and_abstains_where_they_are_missing(
    city: Calibrated, questions: Path
) -> None:
    answers = _demo.live_answers(
        Guard.load(city.policy, metrics=False), QuestionRecord.read(questions)
    )

    missing = [one for one in answers if one.situation == "missing"]
    assert ("in the knowledge base", "follow_context") in {
        (one.situation, one.route) for one in answers
    }
    assert sum(one.route == "abstain" for one in missing) >= 4
    for answer in answers:
        if answer.route == "abstain":
            assert answer.guarded != answer.unguarded
        else:
            assert answer.guarded == answer.unguarded


def test_the_microworld_shows_all_three_routes_with_fewer_wrong_replies(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fewer documents and fewer questions to calibrate on, for they take their time.
    monkeypatch.setattr(_demo, "DOCUMENTS", 80)
    monkeypatch.setattr(_demo, "CALIBRATION_FACTS", 50)

    found = _demo.microworld_answers(folder)

    answers = [answer for some in found.values() for answer, _ in some]
    assert {one.route for one in answers} == {route.value for route in Route}
    assert [len(some) for some in found.values()] == [3, 3, 3, 3]
    rights = [
        (one.route == "abstain" or same_answer(one.guarded, right or ""), right is not None
         and same_answer(one.unguarded, right))
        for some in found.values() for one, right in some
    ]  # fmt: skip
    assert sum(guarded for guarded, _ in rights) >= sum(free for _, free in rights) + 3
    assert {one.route for one, _ in found["nowhere"]} == {"abstain"}
    assert {one.route for one, _ in found["contradicted"]} == {"follow_context"}
    assert any(one.scenario == "conflict" for one, _ in found["contradicted"])


def test_a_missing_model_is_told_in_one_line_before_anything_is_measured(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path))
    out = tmp_path / "out"
    found = knowgate("demo", "--model", "smollm2", "--out", str(out))
    refused(found, "smollm2", "knowgate models get smollm2")
    assert not out.exists()
