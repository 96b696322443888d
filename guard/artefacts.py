"""The parts of a stored policy: veto bindings, guarantees and histograms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    FiniteFloat,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ._leak_test import LeakTest, binomial_tail
from .decision import Route
from .errors import FingerprintMismatchError, PolicyError, PolicyVersionError
from .fingerprint import Artefact, Fingerprint

Probability = Annotated[float, Field(ge=0, le=1)]
# Of questions; what a stored policy claims is computed anew, which must not take long.
MOST_QUESTIONS = 1_000_000
Count = Annotated[int, Field(ge=0, le=MOST_QUESTIONS)]
# `(questions, of those let through, how many such passages)`.
Groups = Annotated[tuple[tuple[Count, Count, Count], ...], Field(max_length=10_000)]

# Of a guarantee: left out of the file where they say nothing.
LATER_FIELDS = frozenset(
    {"method", "questions", "routes", "risks", "path", "chosen", "measured_by"}
    | {"population", "not_covered", "more_questions", "attempt", "passages", "candidates"}
)
# The share of δ that a first attempt is tested at; the rest is divided among all later ones.
_FIRST_SHARE = 0.75


def require_fingerprint(expected: Fingerprint, found: Fingerprint, what: str, hint: str) -> None:
    """Reject a part other than the one that a policy is bound to.

    Raises:
        FingerprintMismatchError: naming the fields that differ.
    """
    differences = expected.differences(found)
    if differences:
        raise FingerprintMismatchError(
            f"the policy was calibrated on another {what} ({'; '.join(differences)})", hint=hint
        )


def require_schema_version(value: Any, newest: int, *, where: str) -> None:
    """Reject parsed JSON that is not a policy of a known schema version.

    Raises:
        PolicyVersionError: a newer knowgate wrote it.
        PolicyError: it is no object, or names no version.
    """
    if not isinstance(value, dict):
        raise PolicyError(
            f"expected a JSON object, found {type(value).__name__}",
            where=where,
            hint="write it with `knowgate calibrate`",
        )
    version = value.get("schema_version")
    if isinstance(version, bool):
        version = None
    if isinstance(version, int) and version > newest:
        raise PolicyVersionError(
            f"policy schema {version} is newer than {newest}, the newest known here",
            where=where,
            hint="upgrade knowgate or calibrate again",
        )
    if not isinstance(version, int) or version < 1:
        raise PolicyError(
            "field 'schema_version' is missing or not a positive number",
            where=where,
            hint="write it with `knowgate calibrate`",
        )


class VetoBinding(Artefact):
    """A veto that a policy is bound to.

    Attributes:
        name: of the veto.
        fingerprint: of the veto; its settings hold all parameters.
        threshold: the guard abstains from this strength on (inclusive).
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    fingerprint: Fingerprint
    threshold: FiniteFloat

    def require(self, fingerprint: Fingerprint) -> None:
        """Reject a veto other than the bound one.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        hint = f"pass the veto {self.name} that the policy is bound to, or bind this one"
        require_fingerprint(self.fingerprint, fingerprint, f"veto {self.name}", hint)


class Retrieval(Artefact):
    """What the calibration questions were retrieved by, as far as that is known.

    Attributes:
        k: the most passages that a question had.
        passage: what a passage holds: `answer`, `question_answer`, `passage` or `chunk`.
        longest: characters of the longest passage.
        details: retriever, chain and chunking, as in the manifest of the run.
    """

    k: Annotated[int, Field(ge=1)] | None = None
    passage: str = ""
    longest: Annotated[int, Field(ge=1)] | None = None
    details: dict[str, JsonValue] = Field(default_factory=dict)


class SupportPolicy(Artefact):
    """From which support on a reply is delivered, and what is promised of those that are.

    The promise: of the replies that are delivered, at most a share `risk` are unsupported, with
    probability 1 - `delta` over the draw of the replies that it was calibrated on.

    Attributes:
        check: fingerprint of the check.
        threshold: replies with a sentence of less support are unsupported; None: none is
            delivered, because nothing could be certified.
        risk: the promised bound; None for a threshold without a promise.
        delta: of the test.
        replies: with a known verdict that it was calibrated on.
        delivered: of them at the threshold.
        unsupported: of those.
        groups: `(delivered, of them unsupported, how many such questions)`.
        p_value: of "the bound is broken".
        note: what the promise rests on, or that there is none.
    """

    check: Fingerprint
    threshold: Probability | None
    risk: Annotated[float, Field(gt=0, lt=1)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    replies: Count = 0
    delivered: Count = 0
    unsupported: Count = 0
    groups: Groups = ()
    p_value: Probability | None = None
    note: str = ""

    @property
    def certified(self) -> bool:
        """Whether something is promised."""
        return self.threshold is not None and self.risk is not None

    @model_validator(mode="after")
    def _borne_out(self) -> SupportPolicy:
        """Check the promise against its counts."""
        if not self.certified:
            return self
        if self.delta is None or self.p_value is None or not self.groups or self.risk is None:
            raise ValueError("a promise on replies names no counts")
        delivered = sum(size * count for size, _, count in self.groups)
        wrong = sum(part * count for _, part, count in self.groups)
        if (delivered, wrong) != (self.delivered, self.unsupported):
            raise ValueError("the counts by question do not add up to the replies")
        found = self.p_value_of(self.groups, self.risk)
        if abs(found - self.p_value) > 1e-6 * max(found, 1e-6) or found > self.delta:
            raise ValueError(f"its counts give p-value {found:.3g}, which does not certify it")
        return self

    @staticmethod
    def p_value_of(groups: Groups, risk: float) -> float:
        """P-value of "more than `risk` of what is delivered is unsupported".

        The larger one of two exact tests: each reply by itself, and each question by the share of
        its replies.
        """
        delivered = sum(size * count for size, _, count in groups)
        if not delivered:
            return 1.0
        wrong = sum(part * count for _, part, count in groups)
        largest = max(size for size, _, _ in groups)
        number = sum(count for _, _, count in groups)
        by_question = LeakTest.of_groups(number, largest, risk).p_value_of(groups)
        return max(binomial_tail(wrong, delivered, risk), by_question)


class PolicyPoint(Artefact):
    """One point of a path of thresholds.

    Attributes:
        relevance: follow the context from this relevance on; None: never.
        confidence: answer from memory from this confidence on; None: never.
        on_conflict: what a conflict does to a context that passes: nothing (`ignore`),
            or the guard abstains.
        p_value: of "some promised bound is broken here".
        let_through: calibration questions let through here.
        errors: questions that went wrong here, in the sense of the guarantee's `loss`.
    """

    relevance: Probability | None
    confidence: Probability | None
    on_conflict: Literal["ignore", "abstain"] = "ignore"
    p_value: Probability
    let_through: Count
    errors: Count


def _require_few(groups: Groups) -> None:
    if sum(size * count for size, _, count in groups) > MOST_QUESTIONS:
        raise ValueError(f"more than {MOST_QUESTIONS:,} questions")


class GuaranteedRisk(Artefact):
    """One bound of a guarantee that has several, and its evidence.

    Attributes:
        kind: which risk, e.g. `selective`, `follow`, `answer`, `false_abstention`, `cost`,
            `abstention`, `leak`; `first_stage` for the leak of a cascade whose costly scorer
            fails.
        bound: in (0, 1).
        n: questions that count for it.
        loss: how much went wrong among them: errors, or the sum of costs.
        p_value: of "the bound is broken".
        losses: cost of each mishap, for `cost`.
        groups: where several questions share a group: `(questions that count, of those that went
            wrong, how many such groups)`. Each group counts once, by that share; of a cost it is
            the mean of its questions, in twentieths. The p-value is then the larger one of the
            tests by question and by group.
        largest_group: most questions that a group has, counted for this bound or not; 0: of each
            one.
    """

    kind: str
    bound: Annotated[float, Field(gt=0, lt=1)]
    n: Count
    loss: Annotated[FiniteFloat, Field(ge=0, le=MOST_QUESTIONS)]
    p_value: Probability
    losses: dict[str, Probability] | None = None
    groups: Groups = ()
    largest_group: Count = 0

    @model_serializer(mode="wrap")
    def _without_groups(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return fields if self.groups else {k: v for k, v in fields.items() if "group" not in k}

    @model_validator(mode="after")
    def _bounded(self) -> GuaranteedRisk:
        _require_few(self.groups)
        if any(not size for size, _, _ in self.groups):
            raise ValueError("a group without questions")
        return self


Missing = Literal["left_out", "unanswerable", "both"]
"""Which questions must not pass."""


class Guarantee(Artefact):
    """What is guaranteed, and the evidence for it.

    Attributes:
        statement: the guarantee in words.
        risk: the bound α that was asked for, in (0, 1).
        delta: probability δ in (0, 1) that the guarantee fails because of the sample drawn.
        certified: False when no threshold met the target; the policy then abstains.
        loss: what counts as an error.
        unit: what is counted; always questions, never passages.
        n: units the certificate rests on.
        errors: units among them that went wrong at the threshold, in the sense of `loss`.
        method: how many candidates were tested without raising δ; empty for one threshold.
        questions: units that took part in the test, let through or not; None as `n`.
        routes: of those, how many went by each route.
        risks: every bound that was asked for, with its evidence at the chosen point; where
            nothing was certified, at the most promising one.
        path: the operating points, declared before the test, from strict to lax.
        chosen: index in `path` of the point that the policy serves by; None: none.
        population: whom the guarantee covers.
        not_covered: what it says nothing about.
        more_questions: about how many more would be needed, where nothing was certified
            and more could help.
        attempt: which calibration on the same data this is, from 1; None: no part of a series.
        passages: of a leak with several questions per passage: `(questions, of those let
            through, how many such passages)`, which its p-value follows from.
        first_stage_passages: likewise, of the leak of a cascade's first stage alone.
        unanswerable_topics: likewise, of unanswerable questions, several of which share a topic.
        missing: of a leak, which questions must not pass: those whose source was left out, the
            user's own unanswerable ones, or both, each by itself; None in other guarantees, and
            in those written before it was noted, which are about the first.
        candidates: scorers that were calibrated on these questions together, of which this is the
            chosen one.
        measured_by: SHA-256 of the scorer, aggregator and relevance calibrator that the certified
            thresholds are of, and but for a leak of the estimator and its calibrator, too. A policy
            with others promises nothing.
    """

    LEFT_OUT = ("first_stage_passages", "unanswerable_topics", "missing")

    statement: str
    risk: Annotated[float, Field(gt=0, lt=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    certified: bool
    loss: str
    unit: Literal["question"] = "question"
    n: Count
    errors: Count
    method: str = ""
    questions: Count | None = None
    routes: dict[Route, Count] = Field(default_factory=dict)
    risks: Annotated[tuple[GuaranteedRisk, ...], Field(max_length=20)] = ()
    path: tuple[PolicyPoint, ...] = ()
    chosen: Count | None = None
    population: str = ""
    not_covered: tuple[str, ...] = ()
    more_questions: Count | None = None
    attempt: Annotated[int, Field(ge=1)] | None = None
    passages: Groups = ()
    first_stage_passages: Groups = ()
    unanswerable_topics: Groups = ()
    missing: Missing | None = None
    candidates: Annotated[int, Field(ge=1)] = 1
    measured_by: str = ""

    @property
    def level(self) -> float:
        """The level of the test: δ, or this attempt's part of it, divided among the candidates."""
        return self.level_of(self.delta, self.attempt) / self.candidates

    @staticmethod
    def leak_test(sizes: Iterable[int], bound: float) -> LeakTest:
        """Choose the test of a leak by the questions of each passage, and the bound."""
        return LeakTest.of(sizes, bound)

    @staticmethod
    def group_test(groups: int, largest: int, bound: float) -> LeakTest:
        """Choose the test of so many groups, each by its share of what it lets through.

        Args:
            groups: that let anything through.
            largest: most questions that a group has.
            bound: on the mean share.
        """
        return LeakTest.of_groups(groups, largest, bound)

    @staticmethod
    def level_of(delta: float, attempt: int | None) -> float:
        """Compute the level that a calibration is tested at, as one of a series on the same data.

        The first attempt has ¾ of δ, the k-th δ / (4 k (k − 1)). However many there are, and
        whichever is kept, their levels sum to δ at most.

        Args:
            delta: probability that the promise of any of them fails by bad luck.
            attempt: its number, from 1; None for a calibration that is no part of a series,
                which has all of δ.

        Source: alpha-spending, as in Tian & Ramdas 2021, Online control of the familywise error
        rate; a union bound over the attempts.

        Example:
            >>> [round(Guarantee.level_of(0.1, attempt), 4) for attempt in (None, 1, 2)]
            [0.1, 0.075, 0.0125]
        """
        if attempt is None:
            return delta
        if attempt == 1:
            return _FIRST_SHARE * delta
        return (1.0 - _FIRST_SHARE) * delta / (attempt * (attempt - 1))

    @model_validator(mode="after")
    def _counted(self) -> Guarantee:
        if self.errors > self.n:
            raise ValueError("errors must not exceed n")
        if self.chosen is not None and self.chosen >= len(self.path):
            raise ValueError("chosen must be an index of path")
        for groups in (self.passages, self.first_stage_passages, self.unanswerable_topics):
            _require_few(groups)
        return self


class Histogram(Artefact):
    """Counts of a signal over the calibration set, for watching drift.

    Attributes:
        edges: increasing bin edges, one more than `counts`.
        counts: questions per bin; the last bin includes its right edge.
    """

    edges: tuple[FiniteFloat, ...]
    counts: tuple[Annotated[int, Field(ge=0)], ...]

    @model_validator(mode="after")
    def _shape(self) -> Histogram:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError("edges must be one longer than counts")
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must increase")
        return self
