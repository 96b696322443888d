"""The guard as a method: its promise, its routes, what it measures."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from scipy.stats import binom

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.guard import InputError, LanguageModelError, Policy, Route
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.suites.uniknow._cases import (
    Case,
    Context,
    ContextKind,
    Knowledge,
    KnowledgeEstimate,
    Method,
    PromptSet,
    Question,
    UniKnowSignal,
)
from knowgate.offline_eval.suites.uniknow._guard import SignalMeter, calibrate_guard, guarded
from knowgate.offline_eval.suites.uniknow.methods import untrained
from knowgate.offline_eval.testbed.check import microworld_model_path
from tests.offline_eval.suites.uniknow.small_run import small_run
from tests.support.fakes import FakeEstimator

PROMPTS = PromptSet("CB {question}", "WC {context} | {question}", "CBU {question}", "WCU {context}")


def _case(name: str, text: str, kind: ContextKind) -> Case:
    answers = ("Rome",) if kind is ContextKind.ORIGINAL else ()
    question = Question(name, f"{name}?", ("Rome",), "toy", name)
    estimate = KnowledgeEstimate(Knowledge.KNOWN, 7, 7)
    return Case.of(question, kind, Context((text,), answers), estimate)


def _signals(questions: int, noise: float, seed: int = 0) -> list[UniKnowSignal]:
    """Two contexts a question, one of which holds the answer; memory has every other one."""
    dice = Random(seed)
    found = []
    for number in range(questions):
        known = number % 2 == 0
        confidence = min(1.0, max(0.0, (0.9 if known else 0.1) + dice.gauss(0, noise)))
        found += [
            UniKnowSignal(
                case_id=f"toy/{number}/{holds}",
                dataset="toy",
                question_id=str(number),
                group=str(number),
                part="training",
                kind=ContextKind.ORIGINAL if holds else ContextKind.RANDOM,
                holds_answer=holds,
                raw_relevance=float(holds) + dice.gauss(0, noise),
                raw_confidence=confidence,
                context_right=holds,
                closed_book_right=known,
                closed_book="Rome",
                context_reply="Rome",
            )
            for holds in (True, False)
        ]
    return found


def _policy(signals: list[UniKnowSignal], **settings: float) -> Policy:
    binding = PolicyBinding(FakeScorer().fingerprint, FakeEstimator().fingerprint, "max")
    return calibrate_guard(signals, binding, **settings)


def _let_through(policy: Policy, signals: list[UniKnowSignal]) -> float:
    asked = [one for one in signals if not one.holds_answer and not one.closed_book_right]
    passed = 0
    for one in asked:
        assert one.raw_relevance is not None
        assert one.raw_confidence is not None
        relevance = policy.relevance_calibrator.apply(one.raw_relevance)
        confidence = policy.confidence_calibrator.apply(one.raw_confidence)
        passed += policy.route(relevance, confidence) is not Route.ABSTAIN
    return passed / len(asked)


def test_separable_signals_give_a_policy_that_routes_every_case_rightly() -> None:
    policy = _policy(_signals(200, 0.05))

    assert policy.guarantee is not None
    assert policy.guarantee.certified
    assert policy.guarantee.questions == policy.guarantee.n >= 70
    for relevance, confidence, route in (
        (1.0, 0.1, Route.FOLLOW_CONTEXT),
        (1.0, 0.9, Route.FOLLOW_CONTEXT),
        (0.0, 0.9, Route.ANSWER),
        (0.0, 0.1, Route.ABSTAIN),
    ):
        calibrated = (
            policy.relevance_calibrator.apply(relevance),
            policy.confidence_calibrator.apply(confidence),
        )
        assert policy.route(*calibrated) is route


def test_the_policy_keeps_what_it_rests_on() -> None:
    policy = _policy(_signals(400, 0.3))
    found = policy.guarantee

    assert found is not None
    assert found.chosen is not None
    [evidence] = found.risks
    # The exact test of the chosen point: so many let through of so many.
    assert evidence.p_value == pytest.approx(binom.cdf(found.errors, found.n, 0.1), rel=1e-9)
    assert evidence.p_value <= found.delta
    assert found.routes[Route.ABSTAIN] == found.n - found.errors
    assert found.path[found.chosen].relevance == policy.relevance_threshold
    # What live questions are compared with: one entry for each of the 400.
    assert sum(policy.histograms["relevance"].counts) == 400


def test_a_signal_whose_highest_value_leaks_has_its_route_closed() -> None:
    # Sampled answers that all agree say 1.0, also where they are wrong.
    signals = [
        one.model_copy(update={"raw_confidence": 1.0, "closed_book_right": False})
        for one in _signals(80, 0.05)
    ]

    policy = _policy(signals)

    assert policy.guarantee is not None
    assert policy.guarantee.certified
    assert policy.confidence_threshold is None
    followed, left = (policy.relevance_calibrator.apply(raw) for raw in (1.0, 0.0))
    assert policy.route(followed, 1.0) is Route.FOLLOW_CONTEXT
    assert policy.route(left, 1.0) is Route.ABSTAIN


def test_too_few_questions_certify_nothing_and_the_policy_says_so() -> None:
    policy = _policy(_signals(20, 0.05))

    assert policy.relevance_threshold is None
    assert policy.route(1.0, 1.0) is Route.ABSTAIN
    assert policy.guarantee is not None
    assert not policy.guarantee.certified
    assert "everything is abstained from" in policy.guarantee.statement


@pytest.mark.slow
def test_the_promise_holds_over_many_draws() -> None:
    fresh = _signals(1500, 0.45, seed=999)
    policies = [_policy(_signals(240, 0.45, seed), risk=0.1, delta=0.1) for seed in range(20)]

    broken = sum(_let_through(policy, fresh) > 0.1 for policy in policies)

    # At most a tenth in the long run; 20 draws show more than 5 with probability 0.01.
    assert broken <= 5


def _method(estimator: FakeEstimator | None = None) -> tuple[Method, ScriptedLanguageModel]:
    lm = ScriptedLanguageModel(default="from the context")
    scorer = FakeScorer({"good": 1.0})
    estimator = estimator or FakeEstimator({"known?": 0.9}, answers={"known?": " Rome "})
    policy = Policy(
        scorer=scorer.fingerprint,
        estimator=estimator.fingerprint,
        relevance_threshold=0.5,
        confidence_threshold=0.5,
        allowed_routes=tuple(Route),
    )
    base = untrained("naive", lm, PROMPTS)
    silent = untrained("naive", ScriptedLanguageModel(default=""), PROMPTS)
    meter = SignalMeter(scorer, estimator, silent)
    return guarded(base, policy, meter), lm


def test_each_route_gives_its_own_reply() -> None:
    method, lm = _method()
    cases = [
        _case("known", "good", ContextKind.ORIGINAL),
        _case("known", "bad", ContextKind.RANDOM),
        _case("unheard", "bad", ContextKind.RANDOM),
    ]

    followed, answered, abstained = method(cases)

    assert (followed.text, followed.route) == ("from the context", "follow_context")
    assert (answered.text, answered.route, answered.confidence) == ("Rome", "answer", 0.9)
    assert (abstained.text, abstained.abstained, abstained.route) == ("", True, "abstain")
    # Memory's answer is the one that the confidence speaks of: nothing was asked again.
    assert lm.prompts == ["WC good | known?"]


def test_a_signal_that_fails_is_an_error_and_no_abstention_to_count() -> None:
    method, _ = _method(FakeEstimator(error=LanguageModelError("down")))

    followed, failed = method(
        [
            _case("known", "good", ContextKind.ORIGINAL),
            _case("known", "bad", ContextKind.RANDOM),
        ]
    )

    assert followed.error is None
    assert failed.error == "SignalError: confidence could not be measured"


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    return HuggingFaceLM(microworld_model_path(), max_new_tokens=16, device="cpu")


def test_training_without_anything_to_train_on_is_refused_before_any_row(
    tmp_path: Path, lm: HuggingFaceLM
) -> None:
    with pytest.raises(InputError, match="kaft: training needs questions"):
        small_run(tmp_path / "run", lm, limit=2, methods=("naive", "kaft"))

    assert not (tmp_path / "run" / "rows.jsonl").exists()


def test_settings_of_training_do_not_bind_a_run_that_trains_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path, ScriptedLanguageModel(default="Rome"), methods=("naive",), limit=2)
    again = ScriptedLanguageModel(default="Rome")

    small_run(run, again, methods=("naive",), limit=2, training_steps=3, learning_rate=0.1)

    assert again.calls == 0
    assert not {"training_steps", "learning_rate"} & set(Manifest.read_raw(run)["settings"])


class _Tuned(LexicalScorer):
    def tuned_on(self, question: str) -> bool:
        return True


def test_a_scorer_that_was_tuned_on_these_questions_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was tuned on 24 of these questions"):
        small_run(
            tmp_path / "run",
            ScriptedLanguageModel(default="x"),
            scorer=_Tuned(),
            methods=("naive", "guard_naive"),
        )
    assert not (tmp_path / "run").exists()
