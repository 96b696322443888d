"""`knowgate calibrate` with a costly scorer: from two runs, or from records with both scores."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard import Fingerprint, Generation, Guard, Policy
from knowgate.guard.signals.confidence import Sampling
from knowgate.guard.signals.relevance import CascadeScorer, LexicalScorer, SufficiencyJudge
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel
from tests.offline_eval.cli.commands import Knowgate, Outcome, read_lines, write_lines
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions

JUDGE = SufficiencyJudge(ScriptedLanguageModel(default="yes"))


def lines(questions: int = 150) -> list[dict[str, Any]]:
    """Overlap of words that tells a little, and a judge that knows nearly all."""
    rng = np.random.default_rng(0)
    found: list[dict[str, Any]] = [
        {
            "scorer": LexicalScorer().fingerprint.model_dump(mode="json"),
            "costly_scorer": JUDGE.fingerprint.model_dump(mode="json"),
            "aggregator": "max",
        }
    ]
    for number in range(questions):
        for case, mean, share in (("in_kb", 0.6, 0.97), ("left_out", 0.45, 0.02)):
            found.append(
                {
                    "question_id": f"q{number}",
                    "case": case,
                    "group": f"p{number}",
                    "relevance": float(np.clip(rng.normal(mean, 0.12), 0, 1)),
                    "costly_relevance": float(rng.random() < share),
                    "confidence": None,
                    "context_right": case == "in_kb",
                    "closed_book_right": None,
                }
            )
    return found


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "records.jsonl", lines())


def _calibrate(knowgate: Knowgate, records: Path, *options: str) -> Outcome:
    out = records.with_name("policy.json")
    return knowgate("calibrate", "--records", records, "--risk", "0.1", "--out", out, *options)


def test_records_with_both_scores_give_a_policy_of_both(knowgate: Knowgate, records: Path) -> None:
    outcome = _calibrate(knowgate, records, "--cascade", "on-failure=cheap")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("lets through at most 10% of what is missing (confidence 90%)")
    assert "cascade: the costly scorer is asked where the cheap one gives from" in outcome.out
    assert "width of the band, chosen on" in outcome.out
    policy = Policy.load(records.with_name("policy.json"))
    assert policy.guarantee is not None
    assert "holds for both scorers as a whole" in policy.guarantee.statement
    guard = Guard.load(policy, scorer=JUDGE, metrics=False)
    assert guard.decide("When does it open?", ["It opens at nine."]).relevance_stage is not None


def test_a_calibration_with_other_verdicts_counts_as_a_further_one(
    knowgate: Knowgate, records: Path
) -> None:
    _calibrate(knowgate, records)
    _calibrate(knowgate, records, "--cascade", "cost=100")
    history = read_lines(records.with_name("records.calibrations.jsonl"))
    assert len({line["data_sha256"] for line in history}) == 1
    guarantee = Policy.load(records.with_name("policy.json")).guarantee
    assert guarantee is not None
    assert guarantee.attempt == 2


class Reading(ScriptedLanguageModel):
    """Says yes where the passages tell when the asked-for thing opens."""

    def _answers(
        self, prompt: str, n: int, temperature: float, seed: int | None
    ) -> list[Generation]:
        thing = prompt.split("When does the ")[1].split(" open?", maxsplit=1)[0]
        return [self._generation("yes" if f"The {thing} opens at" in prompt else "no")] * n


class Noise(FakeScorer):
    """Knows nothing of questions and passages, and doubts half of them in its strict reading."""

    is_strict = False

    def _one(self, passage: str) -> float:
        value = zlib.crc32(passage.encode()) / 2**32
        return value / 100.0 if self.is_strict and len(passage) % 2 else value

    @property
    def strict(self) -> Noise:
        found = Noise()
        found.is_strict = True
        return found

    @property
    def fingerprint(self) -> Fingerprint:
        kind = "fake_strict" if self.is_strict else "fake"
        return super().fingerprint.model_copy(update={"kind": kind})


def judge() -> SufficiencyJudge:
    return SufficiencyJudge(Reading(), sampling=Sampling(n=1))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A run of noise, one of a judge, one of a strict reading of the noise; the same questions."""
    folder = tmp_path_factory.mktemp("cascade")
    questions = write_toy_questions(folder / "kb.jsonl", 60)
    runs = [
        run_toy(questions, folder / name, scorer=scorer)
        for name, scorer in (("cheap", Noise()), ("judged", judge()), ("strict", Noise().strict))
    ]
    return runs[0], runs[1], runs[2]


def test_two_runs_give_a_policy_of_both(
    knowgate: Knowgate, runs: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    cheap, judged, _ = runs
    done = knowgate(
        "calibrate", "--run", cheap, "--cascade", f"run={judged},cost=20", "--risk", "0.1",
        "--out", tmp_path / "policy.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    policy = Policy.load(tmp_path / "policy.json")
    assert [stage.kind for stage in policy.scorer.stages] == ["fake", "judge"]
    # A report of this run would judge its rows by the cheap scorer alone.
    assert not (cheap / "calibration.json").exists()
    scorer = CascadeScorer.of(policy.scorer, Noise(), judge())
    guard = Guard.load(policy, scorer=scorer, metrics=False)
    asked = guard.decide_batch(
        ["When does the harbour open?"] * 20,
        [[f"The museum opens at {number}."] for number in range(20)],
    )
    assert {one.route.value for one in asked} == {"abstain"}
    assert "costly" in {one.relevance_stage for one in asked}


def test_a_third_run_has_the_judge_asked_about_doubtful_matches(
    knowgate: Knowgate, runs: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    cheap, judged, strict = runs
    out = tmp_path / "policy.json"
    asked = "calibrate", "--run", cheap, "--risk", "0.1", "--out", out, "--cascade"
    done = knowgate(*asked, f"run={judged},strict={strict},cost=20")
    assert done.code == 0, done.err
    assert "and it or its strict reading less than" in done.out
    policy = Policy.load(out)
    assert [stage.kind for stage in policy.scorer.stages] == ["fake", "judge", "fake_strict"]
    guard = Guard.load(
        policy, scorer=CascadeScorer.of(policy.scorer, Noise(), judge()), metrics=False
    )
    assert guard.decide("When does the harbour open?", ["The pool is heated."]).relevance_stage
    refused = knowgate(*asked, f"run={judged},strict={judged}")
    assert refused.code == 2
    assert "is no strict reading of the scorer of" in refused.err
