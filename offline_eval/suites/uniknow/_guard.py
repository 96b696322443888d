"""The guard as a method: measure its signals once, calibrate it, route each case by it.

It is calibrated on the suite's training questions; those of the evaluation take no part.

The guarantee: of the questions that neither the context nor the model's memory answers, few
are let through. Calibrators and a few paths of thresholds come from the learning part of the
questions; along each path one threshold is fixed and the other falls. On the testing part, one
case per question, each path is tested point by point until the first that fails, at its share
of δ. Of all points that pass, the one is taken that routes most training cases rightly: to the
context if it holds the answer, to memory if that is right, otherwise to abstaining. If no point
passes, the policy always abstains.

Source: Angelopoulos et al. 2021, Learn then Test (fixed-sequence testing).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...._version import __version__
from ....calibration import CalibrationRecord
from ....calibration.calibrators import fit_platt
from ....calibration.monitoring import calibration_histograms
from ....calibration.risk import RiskTarget, fit_policy
from ....calibration.risk.certificate import Evidence
from ....calibration.risk.fit import PolicyBinding
from ....calibration.risk.path import PathPoint
from ....guard import Guard, GuardOptions
from ....guard.artefacts import Guarantee
from ....guard.contracts import Confidence, ConfidenceEstimator, RelevanceScorer, SetScore
from ....guard.decision import Decision, Route
from ....guard.errors import InputError, KnowgateError, SignalValueError
from ....guard.fingerprint import Fingerprint
from ....guard.policy import Policy, known_calibrator
from ....guard.routing import Calibrator, PlattCalibrator
from ...run import RowError
from ...run.calls import each_or_error
from ...systems.models import choose_reply
from ._cases import Case, Part, Reply, UniKnowSignal
from ._matching import is_right
from .methods import Method

_Passages = tuple[str, ...]


class RememberingScorer:
    """A scorer of single passages that caches its scores, see `over`.

    Args:
        scorer: what measures.
    """

    def __init__(self, scorer: RelevanceScorer) -> None:
        self._scorer = scorer
        self._scores: dict[tuple[str, str], float] = {}
        self._joint: dict[tuple[str, _Passages], float] = {}

    @classmethod
    def over(cls, scorer: RelevanceScorer) -> RememberingScorer:
        """Wrap a scorer; the result scores sets of passages if `scorer` does."""
        sets = all(callable(getattr(scorer, name, None)) for name in ("score_set", "score_sets"))
        return RememberingSetScorer(scorer) if sets else cls(scorer)

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the scorer itself."""
        return self._scorer.fingerprint

    def supports(self, question: str) -> bool:
        """Return whether the scorer knows the question's language."""
        supports = getattr(self._scorer, "supports", None)
        return True if supports is None else supports(question)

    def remember(
        self, question: str, passages: Sequence[str], scores: Sequence[float], joint: float
    ) -> None:
        """Add values that were measured before."""
        self._joint[question, tuple(passages)] = joint
        for passage, score in zip(passages, scores, strict=True):
            self._scores[question, passage] = score

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Return scores of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return scores of shape (len(pairs),)."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._scores]
        if new:
            found = self._scorer.score_pairs(new)
            self._scores.update(zip(new, map(float, found), strict=True))
        return np.asarray([self._scores[pair] for pair in pairs], dtype=np.float64)


class RememberingSetScorer(RememberingScorer):
    """A caching scorer that also scores several passages together."""

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """Return the scores of one or more passages, and their joint score."""
        [found] = self.score_sets([question], [passages])
        return found

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """Return `score_set` of each question with its passages."""
        sets = [(q, tuple(some)) for q, some in zip(questions, passages, strict=True)]
        new = [one for one in dict.fromkeys(sets) if one not in self._joint]
        if new:
            scorer: Any = self._scorer
            found = scorer.score_sets([q for q, _ in new], [list(some) for _, some in new])
            for (question, some), score in zip(new, found, strict=True):
                self.remember(question, some, score.scores, score.joint)
        return [
            SetScore(tuple(self._scores[q, passage] for passage in some), self._joint[q, some])
            for q, some in sets
        ]


class RememberingEstimator:
    """A confidence estimator that asks about each question once; failures are not cached.

    Args:
        estimator: what measures.
    """

    def __init__(self, estimator: ConfidenceEstimator) -> None:
        self._estimator = estimator
        self._found: dict[str, Confidence] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the estimator itself."""
        return self._estimator.fingerprint

    def remember(self, question: str, confidence: Confidence) -> None:
        """Add values that were measured before."""
        self._found[question] = confidence

    def estimate(self, question: str) -> Confidence:
        """Return the confidence in the closed-book answer to `question`."""
        if question not in self._found:
            self._found[question] = self._estimator.estimate(question)
        return self._found[question]

    async def aestimate(self, question: str) -> Confidence:
        """Do as `estimate`, without blocking the event loop."""
        if question not in self._found:
            self._found[question] = await self._estimator.aestimate(question)
        return self._found[question]

    def estimate_many(
        self, questions: Sequence[str], *, on_error: Literal["raise", "return"] = "raise"
    ) -> list[Confidence | KnowgateError]:
        """Return one confidence per question; with "return" errors take the place of values."""
        new = [question for question in dict.fromkeys(questions) if question not in self._found]
        failed = self._ask(new, on_error) if new else {}
        return [failed.get(question) or self._found[question] for question in questions]

    def _ask(
        self, questions: list[str], on_error: Literal["raise", "return"]
    ) -> dict[str, KnowgateError]:
        many: Any = getattr(self._estimator, "estimate_many", None)
        failed: dict[str, KnowgateError] = {}
        if many is not None:
            answers = many(questions, on_error=on_error)
            for question, answer in zip(questions, answers, strict=True):
                if isinstance(answer, KnowgateError):
                    failed[question] = answer
                else:
                    self._found[question] = answer
            return failed
        for question in questions:
            try:
                self.estimate(question)
            except KnowgateError as error:
                if on_error == "raise":
                    raise
                failed[question] = error
        return failed


class SignalMeter:
    """Measure signals, and keep what was measured.

    Args:
        scorer: measures relevance.
        estimator: measures confidence in the closed-book answer.
        aggregator: how passage scores become one value.
        naive: replies with the context; guards over it reuse its replies.
    """

    def __init__(
        self,
        scorer: RelevanceScorer,
        estimator: ConfidenceEstimator,
        aggregator: str,
        naive: Method,
    ) -> None:
        self.scorer = RememberingScorer.over(scorer)
        self.estimator = RememberingEstimator(estimator)
        self.aggregator = aggregator
        self._naive = naive
        # No deadline: how busy the machine is must not decide which cases count as failed.
        # Only raw values are kept; a scorer of one's own may give others than probabilities.
        policy = Policy(
            scorer=scorer.fingerprint,
            aggregator=aggregator,
            relevance_calibrator=known_calibrator(scorer.fingerprint)
            or PlattCalibrator(a=1.0, b=0.0),
            relevance_threshold=1.0,
            allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN),
        )
        self._guard = Guard(
            policy,
            scorer=self.scorer,
            options=GuardOptions(mode="shadow", deadlines={"relevance": None}),
            metrics=False,
        )

    def remember(self, signals: Iterable[tuple[UniKnowSignal, Case]]) -> None:
        """Add what was measured before, so that it is not measured again."""
        for signal, case in signals:
            question, passages = case.question.question, case.context.passages
            scores = [score for score in signal.scores if score is not None]
            if signal.raw_relevance is not None and len(scores) == len(passages):
                self.scorer.remember(question, passages, tuple(scores), signal.raw_relevance)
            if signal.raw_confidence is not None and signal.closed_book is not None:
                found = Confidence(signal.raw_confidence, signal.closed_book)
                self.estimator.remember(question, found)

    def measure(self, cases: Sequence[Case], part: Part) -> list[UniKnowSignal]:
        """Return the signals of some cases, in order; failures are noted, never raised."""
        asked = [case.question.question for case in cases]
        decisions = self._guard.decide_batch(asked, [case.context.passages for case in cases])
        confidences = self._confidences(asked)
        replies = self._naive.answer(cases)
        return [
            _signal(case, part, decision, found, reply)
            for case, decision, found, reply in zip(
                cases, decisions, confidences, replies, strict=True
            )
        ]

    def _confidences(self, questions: Sequence[str]) -> list[Confidence | KnowgateError]:
        different = list(dict.fromkeys(questions))

        def call(some: Sequence[str]) -> Sequence[Confidence | KnowgateError]:
            return self.estimator.estimate_many(some, on_error="return")

        found = dict(zip(different, each_or_error(call, different), strict=True))
        return [_checked(found[question]) for question in questions]


def _signal(
    case: Case,
    part: Part,
    decision: Decision,
    found: Confidence | KnowgateError,
    reply: Reply,
) -> UniKnowSignal:
    errors = []
    if decision.raw_relevance is None:
        errors.append(f"SignalError: relevance signal: {decision.reason}")
    confidence = None if isinstance(found, KnowgateError) else found
    if isinstance(found, KnowgateError):
        errors.append(str(RowError.of(found)))
    if reply.error:
        errors.append(reply.error)
    known = None if confidence is None else is_right(confidence.answer, case.question.answers)
    return UniKnowSignal(
        case_id=case.case_id,
        dataset=case.question.dataset,
        question_id=case.question.id,
        group=case.question.group,
        part=part,
        kind=case.context.kind,
        holds_answer=bool(case.context.answers),
        raw_relevance=decision.raw_relevance,
        raw_confidence=None if confidence is None else confidence.value,
        context_right=None if reply.error else is_right(reply.text, case.expected),
        closed_book_right=known,
        closed_book=None if confidence is None else confidence.answer,
        context_reply=None if reply.error else reply.text,
        scores=decision.scores,
        error=errors[0] if errors else None,
    )


def _checked(found: Confidence | KnowgateError) -> Confidence | KnowgateError:
    if isinstance(found, KnowgateError) or 0.0 <= found.value <= 1.0:
        return found
    return SignalValueError("confidence", "the value is not in [0, 1]")


def policy_guard(policy: Policy, scorer: RelevanceScorer, estimator: ConfidenceEstimator) -> Guard:
    """Make the guard of a policy, without deadlines.

    How busy the machine is must not decide which cases count as failed.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
    """
    return Guard(
        policy,
        scorer=scorer,
        estimator=estimator,
        options=GuardOptions(deadlines={"relevance": None, "confidence": None}),
        metrics=False,
    )


class GuardMethod:
    """Put a guard in front of another method.

    Routed to the context, the other method answers from the passages kept. Routed to
    memory, the reply is the closed-book answer that the confidence belongs to. Otherwise
    it abstains.

    Args:
        name: of the method.
        base: answers from the context.
        guard: decides; `policy_guard` for a policy of the suite.
    """

    def __init__(self, name: str, base: Method, guard: Guard) -> None:
        self.name, self._base, self._guard = name, base, guard

    def answer(self, cases: Sequence[Case]) -> list[Reply]:
        """Return one reply per case, in order, with route, relevance and confidence."""
        decisions = self._guard.decide_batch(
            [case.question.question for case in cases], [case.context.passages for case in cases]
        )
        followed = [
            _kept(case, decision)
            for case, decision in zip(cases, decisions, strict=True)
            if decision.route is Route.FOLLOW_CONTEXT
        ]
        replies = iter(self._base.answer(followed) if followed else [])
        return [
            _reply(decision, next(replies) if decision.route is Route.FOLLOW_CONTEXT else None)
            for decision in decisions
        ]


def _kept(case: Case, decision: Decision) -> Case:
    """Return the case with the passages that the guard kept."""
    passages = tuple(case.context.passages[index] for index in decision.kept)
    if passages == case.context.passages:
        return case
    return replace(case, context=replace(case.context, passages=passages))


def _reply(decision: Decision, followed: Reply | None) -> Reply:
    chosen = choose_reply(
        decision,
        with_context=followed,
        closed_book=Reply((decision.closed_book_answer or "").strip(), abstained=False),
        abstention=Reply("", abstained=True),
    )
    assert chosen is not None
    error = chosen.error
    if decision.failed_signals:
        # The guard abstains then, but nothing was measured: the reply does not count.
        error = f"SignalError: {', '.join(decision.failed_signals)} could not be measured"
    return Reply(
        chosen.text,
        abstained=chosen.abstained,
        route=decision.route.value,
        relevance=decision.relevance,
        confidence=decision.confidence,
        error=error,
    )


_WHO = "of the questions that neither the context nor the model's memory answers"
# Shares of contexts without an answer that may pass where relevance is kept on a path.
_LEAKING = (0.0, 0.02)
# Thresholds that are tried for each signal.
_LEVELS = 100
# Of the training questions; the rest is worth more in the test.
_LEARNING_SHARE = 0.25
# Where there is nothing to learn a path from.
_STRICTEST = PathPoint(1.0, 1.0)


def calibrate_guard(
    signals: Sequence[UniKnowSignal],
    *,
    scorer: Fingerprint,
    estimator: Fingerprint,
    aggregator: str,
    risk: float = 0.1,
    delta: float = 0.1,
) -> Policy:
    """Fit a policy that lets through few of the questions that neither side answers.

    Args:
        signals: of training questions, in any order.
        scorer: fingerprint of what measured relevance.
        estimator: fingerprint of what measured confidence.
        aggregator: how passage scores became one value.
        risk: share of such questions that may be let through, in (0, 1).
        delta: probability in (0, 1) that the guarantee fails by chance.

    Raises:
        InputError: `risk` or `delta` is out of its range.
    """
    require_share("risk", risk)
    require_share("delta", delta)
    usable = [s for s in signals if s.raw_relevance is not None and s.raw_confidence is not None]
    usable.sort(key=lambda signal: signal.case_id)  # sums of floats depend on their order
    learning, testing = _parts(usable)
    relevance, confidence = _calibrators(learning)
    binding = PolicyBinding(
        scorer=scorer,
        estimator=estimator,
        aggregator=aggregator,
        relevance_calibrator=relevance,
        confidence_calibrator=confidence,
        created_by=f"knowgate {__version__}",
    )
    paths = _declared_paths([_record(s, relevance, confidence) for s in learning])
    tested = [_record(s, relevance, confidence) for s in _one_per_question(testing)]
    records = [_record(s, relevance, confidence) for s in usable]
    policy = _tested(paths, tested, records, binding, (risk, delta))
    return policy.model_copy(
        update={
            "guarantee": _in_words(policy.guarantee, delta=delta, paths=len(paths)),
            # Live questions are not only those that neither side answers.
            "histograms": calibration_histograms(
                policy, CalibrationRecord.one_per_question(records)
            ),
            "calibration_set_sha256": _sha256(usable),
        }
    )


def _tested(
    paths: Sequence[tuple[PathPoint, ...]],
    tested: Sequence[CalibrationRecord],
    usable: Sequence[CalibrationRecord],
    binding: PolicyBinding,
    bounds: tuple[float, float],
) -> Policy:
    """Test each path at its share of δ and return the policy of the best point that passes."""
    risk, delta = bounds
    # Letting one of them through costs 1 by either route: the mean cost is their share.
    targets = [RiskTarget("cost", risk)]

    def fitted(path: tuple[PathPoint, ...]) -> Policy:
        found = fit_policy(tested, targets, delta=delta / len(paths), path=path, binding=binding)
        return found.policy

    path, place = _best([fitted(path) for path in paths], paths, usable)
    # Ending at the point that was chosen, the same test gives its figures.
    return fitted(path if place is None else path[: place + 1])


def require_share(name: str, value: float) -> None:
    """Check that a risk or a probability can be tested.

    Raises:
        InputError: it is not within (0, 1), or too near an end; `name` is named.
    """
    try:
        RiskTarget("cost", value)
    except ValueError:
        raise InputError(
            f"must be between 0 and 1, not {value}", where=name, hint="use 0.1"
        ) from None


def _parts(
    signals: Sequence[UniKnowSignal],
) -> tuple[list[UniKnowSignal], list[UniKnowSignal]]:
    """Split into a learning and a testing part, question by question, whatever their groups.

    The testing part must be a sample of all questions that the guarantee is about.
    """
    keys = sorted({(signal.dataset, signal.question_id) for signal in signals})
    seed = CalibrationRecord.seed_of(map("/".join, keys))
    Random(f"uniknow/guard/{seed}").shuffle(keys)  # noqa: S311 - a draw, no secret
    first = set(keys[: round(_LEARNING_SHARE * len(keys))])
    parts: tuple[list[UniKnowSignal], list[UniKnowSignal]] = ([], [])
    for signal in signals:
        parts[0 if (signal.dataset, signal.question_id) in first else 1].append(signal)
    return parts


def _calibrators(learning: Sequence[UniKnowSignal]) -> tuple[Calibrator, Calibrator]:
    sides: dict[bool, list[float]] = {True: [], False: []}
    memory: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for signal in learning:
        assert signal.raw_relevance is not None
        assert signal.raw_confidence is not None
        sides[signal.holds_answer].append(signal.raw_relevance)
        memory[bool(signal.closed_book_right)][signal.question_id] = signal.raw_confidence
    right, wrong = (list(memory[side].values()) for side in (True, False))
    return fit_platt(sides[True], sides[False]), fit_platt(right, wrong)


def _record(
    signal: UniKnowSignal, relevance: Calibrator, confidence: Calibrator
) -> CalibrationRecord:
    """Return the calibrated signals of a case, and which side has the answer."""
    assert signal.raw_relevance is not None
    assert signal.raw_confidence is not None
    return CalibrationRecord(
        question_id=f"{signal.dataset}/{signal.question_id}",
        relevance=relevance.apply(signal.raw_relevance),
        confidence=confidence.apply(signal.raw_confidence),
        context_right=signal.holds_answer,
        closed_book_right=bool(signal.closed_book_right),
        group=signal.group,
        case=signal.kind,
    )


def _one_per_question(signals: Sequence[UniKnowSignal]) -> list[UniKnowSignal]:
    """One case of each question that neither side answers, picked by a hash of its id."""
    chosen: dict[tuple[str, str], UniKnowSignal] = {}
    for signal in signals:
        if signal.holds_answer or signal.closed_book_right:
            continue
        key = (signal.dataset, signal.question_id)
        if key not in chosen or _hash(signal.case_id) < _hash(chosen[key].case_id):
            chosen[key] = signal
    return list(chosen.values())


def _declared_paths(cases: Sequence[CalibrationRecord]) -> list[tuple[PathPoint, ...]]:
    """Paths along which one threshold stands where few leaks were seen, and the other falls.

    Two keep the threshold of relevance, where none and 2 % of the learning part's contexts
    without an answer pass; one keeps that of confidence, where none of its questions passes
    that the model does not know. The other route is closed at first.
    """
    without = [c.relevance for c in cases if not c.context_right and c.relevance is not None]
    holding = [c.relevance for c in cases if c.context_right and c.relevance is not None]
    answers = {c.question_id: (c.confidence, c.closed_book_right) for c in cases}
    unknown = [v for v, right in answers.values() if not right and v is not None]
    known = [v for v, right in answers.values() if right and v is not None]
    follows, trusts = _levels([*holding, *without]), _levels([*known, *unknown])
    paths = []
    for share in _LEAKING:
        kept = _above(math.floor(share * len(without)), without, holding)
        paths.append([PathPoint(kept, step) for step in trusts])
    kept = _above(0, unknown, known)
    paths.append([PathPoint(step, kept) for step in follows])
    closed = PathPoint(None, None)
    open_ones = [tuple(point for point in path if point != closed) for path in paths]
    return [path for path in dict.fromkeys(open_ones) if path] or [(_STRICTEST,)]


def _above(number: int, leaking: Sequence[float], wanted: Sequence[float]) -> float | None:
    """A threshold that all but the `number` highest of `leaking` miss; None: a closed route."""
    ranked = sorted(leaking, reverse=True)
    ceiling = ranked[number] if number < len(ranked) else 0.0
    above = min((v for v in (*wanted, *ranked) if v > ceiling), default=None)
    # The middle of the gap, so that the last bit of a value never decides.
    return None if above is None else (ceiling + above) / 2


def _levels(values: Sequence[float]) -> list[float | None]:
    """Thresholds between the values that occur, highest first; before them, a closed route."""
    if not values:
        return [None]
    shares = np.linspace(1.0, 0.0, _LEVELS)
    found = np.unique(np.quantile(np.asarray(values), shares, method="lower"))
    between = (found[1:] + found[:-1]) / 2 if len(found) > 1 else found
    return [None, *(float(value) for value in between[::-1])]


def _best(
    fitted: Sequence[Policy],
    paths: Sequence[tuple[PathPoint, ...]],
    cases: Sequence[CalibrationRecord],
) -> tuple[tuple[PathPoint, ...], int | None]:
    """The path, and the place on it, of the certified point that routes most cases rightly.

    All certified points keep the promise together, so any choice among them does. The
    first path and None where there is none.
    """
    evidence = Evidence.of(cases)
    wanted = np.where(evidence.context_right, 1, np.where(evidence.closed_book_right, 2, 0))
    found: list[tuple[int, int, int]] = []
    for number, policy in enumerate(fitted):
        promise = policy.guarantee
        if promise is not None and promise.chosen is not None:
            certified = paths[number][: promise.chosen + 1]
            right = (evidence.route_codes(certified) == wanted).sum(axis=1)
            place = int(np.argmax(right))  # of equals the strictest
            found.append((int(right[place]), -number, place))
    if not found:
        return paths[0], None
    _, number, place = max(found, key=lambda one: one[:2])
    return paths[-number], place


def _in_words(found: Guarantee | None, *, delta: float, paths: int) -> Guarantee:
    """The guarantee, speaking of the questions that it is about."""
    assert found is not None
    share, sure = f"at most {found.risk:g} {_WHO}", f"with confidence {1 - delta:g}"
    if found.certified:
        words = f"{share} are let through, {sure}"
    else:
        words = (
            f"no thresholds were certified to let through {share}, {sure}: everything is "
            "abstained from"
        )
        if found.n and found.more_questions is not None:
            words += f"; about {found.more_questions} more training questions of theirs would help"
    return found.model_copy(
        update={
            "statement": words,
            "delta": delta,
            "method": f"fixed-sequence testing along {paths} declared paths, each at its part of δ",
            "loss": "let through although neither context nor memory has the answer",
            "population": f"new ones {_WHO}, drawn like the training questions",
        }
    )


def _sha256(signals: Sequence[UniKnowSignal]) -> str:
    names = ("case_id", "raw_relevance", "raw_confidence", "holds_answer", "closed_book_right")
    lines = [json.dumps([getattr(signal, name) for name in names]) for signal in signals]
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
