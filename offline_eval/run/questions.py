"""Questions, cases, and rows of relevance signals."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import ConfigDict, Field, FiniteFloat, model_validator

from ...guard.errors import InputError, KnowgateError
from ...guard.files import AnyPath
from ...guard.fingerprint import Fingerprint
from ...guard.policy import Policy
from .manifest import Manifest, Stored

Identifier = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]


class CaseKind(StrEnum):
    """What the knowledge base holds of the answer.

    The whole knowledge base; without the question's own passage; the same with the question
    itself as one of the passages; for a question that somebody knows to be unanswerable, or that
    was made up about its topics, no answer at all; or, for a question from a live log, nobody
    knows.
    """

    IN_KB = "in_kb"
    LEFT_OUT = "left_out"
    UNANSWERABLE = "unanswerable"
    ECHO = "echo"
    SYNTHETIC = "synthetic"
    LIVE = "live"

    @classmethod
    def twins(cls) -> tuple[CaseKind, CaseKind]:
        """Return the two kinds that every question has."""
        return cls.IN_KB, cls.LEFT_OUT

    @property
    def leaves_out(self) -> bool:
        """Whether the question's own passage is left out of the knowledge base."""
        return self in (CaseKind.LEFT_OUT, CaseKind.ECHO)


class LeaveOut(StrEnum):
    """What a left-out case lacks: the source of its answer, its whole page, or its topic.

    The topic is the page, and every page with a passage much like the one that answers.
    """

    SOURCE = "source"
    PAGE = "page"
    TOPIC = "topic"


class FoundBy(StrEnum):
    """How the documents that hold the answer of a question were told from others.

    By a field of their metadata, by overlap with the passage that the question names, or by
    the whole answer standing in them.
    """

    METADATA = "metadata"
    PASSAGE = "passage"
    ANSWER = "answer"
    UNKNOWN = "unknown"


class MeasuredSettings(Stored):
    """What decides the rows of a run of relevance signals.

    Attributes:
        scorer: fingerprint of what judged relevance.
        aggregator: how passage scores became one value per question.
        retriever: fingerprint of the retriever's encoder, None in a run made before
            it was noted.
        retrieval: name of the retrieval strategy.
        top_k: passages per case.
        passage: what stands in a passage.
        leave_out: what the left-out cases lack.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    scorer: Fingerprint
    aggregator: str
    retriever: Fingerprint | None = None
    retrieval: str
    top_k: Annotated[int, Field(gt=0)]
    passage: str
    leave_out: LeaveOut = LeaveOut.SOURCE


class MeasuredManifest(Manifest):
    """`manifest.json` of a run of relevance signals.

    Attributes:
        settings: checked.
        questions: how many it was started with.
        cases: how many rows it has once it is finished.
        probed_scorer: the scorer's fingerprint with the scores of its probe; None where it has
            none.
        tuned_on: ids of the questions that the scorer was tuned on; not stored if empty.
    """

    settings: MeasuredSettings
    questions: Count
    cases: Count
    probed_scorer: Fingerprint | None = None
    tuned_on: tuple[str, ...] = ()

    @classmethod
    def read_raw(cls, folder: AnyPath) -> dict[str, Any]:
        """Read the manifest; one of a run made before sources could be widened says so."""
        value = super().read_raw(folder)
        if isinstance(settings := value.get("settings"), dict):
            settings.setdefault("leave_out", LeaveOut.SOURCE.value)
        return value

    @property
    def scorer(self) -> Fingerprint:
        """Of what judged relevance, with the scores of its probe."""
        return self.probed_scorer or self.settings.scorer

    def require_of(self, policy: Policy, *, where: str, hint: str) -> None:
        """Reject a policy that judges by something else than was measured.

        Raises:
            FingerprintMismatchError: it is of another scorer.
            InputError: it aggregates in another way.
        """
        policy.require_scorer(self.scorer)
        own, measured = policy.aggregator, self.settings.aggregator
        if own != measured:
            what = f"the policy aggregates by {own!r}, the run by {measured!r}"
            raise InputError(what, where=where, hint=hint)


class Question(Stored):
    """A line of `questions.jsonl`: a question, with the passage that holds its answer.

    Attributes:
        passage_id: questions with the same passage share one; see `own_passage`.
        knowledge_base: name of the one that it belongs to; empty where there is one only.
        topic: what it is about, where the input says so.
        made_by: who made it up: empty for people, `rules`, or `model:NAME`.
        unit: what the question is evidence about, where that is more than its passage: questions
            share it if what was left out for them overlaps.
    """

    question_id: Identifier
    question: str
    answer: str = ""
    passage: str = ""
    passage_id: str = ""
    source: str | None = None
    knowledge_base: str = ""
    topic: str | None = None
    made_by: str = ""
    unit: str = ""

    @property
    def own_passage(self) -> str:
        """Id of the passage that holds the answer; the question's own id where it has none."""
        return self.passage_id or self.question_id

    @property
    def evidence(self) -> str:
        """What the question is evidence about: its unit, else its passage."""
        return self.unit or self.own_passage


def raised_in(error: Exception) -> str:
    """Say which function raised an exception, by its module and name."""
    trace = error.__traceback__
    if trace is None:
        return "raised by what was called"
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    return f"raised in {frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"


class UnmatchedSourceError(KnowgateError):
    """A question names a source that no document has."""


class RowError(Stored):
    """Why there is no result for a case."""

    type: str
    detail: str

    @classmethod
    def of(cls, error: Exception) -> RowError:
        """Describe an exception for a row.

        The message of an error that is not knowgate's may quote the question or hold a key:
        only its type is kept, and where it was raised.
        """
        detail = str(error) if isinstance(error, KnowgateError) else raised_in(error)
        return cls(type=type(error).__name__, detail=detail)

    def __str__(self) -> str:
        return f"{self.type}: {self.detail}"


class MeasuredRow(Stored):
    """A line of `rows.jsonl`: one measured case.

    Attributes:
        retrieved: passage ids, best first.
        scores: raw relevance per retrieved passage, None for one without text.
        raw_relevance: their aggregate, None where nothing was retrieved or the case
            failed.
        retrieval_miss: an in-KB case whose own passage was not retrieved.
        error: None unless the case failed.
    """

    case_id: Identifier
    question_id: Identifier
    kind: CaseKind
    retrieved: tuple[str, ...]
    scores: tuple[FiniteFloat | None, ...]
    raw_relevance: FiniteFloat | None
    retrieval_miss: bool
    error: RowError | None

    @model_validator(mode="after")
    def _consistent(self) -> MeasuredRow:
        if self.error is not None:
            return self
        if len(self.scores) != len(self.retrieved):
            raise ValueError("scores and retrieved differ in length")
        if self.retrieved and self.raw_relevance is None:
            raise ValueError("raw_relevance is missing although there is no error")
        return self


class SourceRow(Stored):
    """A line of `sources.jsonl`: where the answer of a question stands, and how that is known.

    Attributes:
        source: identifies it; questions with one source are one piece of evidence.
    """

    question_id: Identifier
    found_by: FoundBy
    source: Identifier


class CalibrationFold(Stored):
    """Questions, and the threshold on raw relevance that the other questions give.

    Attributes:
        threshold: a score passes from it on; None: nothing passes.
        questions: ids.
    """

    threshold: FiniteFloat | None
    questions: tuple[str, ...]


class RunCalibration(Stored):
    """`calibration.json`: the policy that a run's questions are judged by.

    Attributes:
        policy: fitted on them, or given.
        risk: the bound that was asked for, None where nothing was.
        calibration_questions: ids of what the policy was fitted on.
        test_questions: ids of what was held out for reporting.
        folds: where nothing was held out, how each calibration question is judged, for costs by
            what other questions gave.
        given_policy: the policy was given from elsewhere and judges all questions as it stands;
            whether it was calibrated on some of them is not known.
    """

    policy: Policy
    risk: Annotated[float, Field(gt=0, lt=1)] | None = None
    calibration_questions: frozenset[str]
    test_questions: frozenset[str]
    folds: tuple[CalibrationFold, ...] = ()
    given_policy: bool = False

    @cached_property
    def thresholds(self) -> dict[str, float | None]:
        """By question the threshold on raw relevance of its fold; None: nothing passes."""
        return {name: fold.threshold for fold in self.folds for name in fold.questions}

    @cached_property
    def reported_questions(self) -> frozenset[str]:
        """Ids of the questions that the rates are about."""
        return self.test_questions or frozenset(self.thresholds)


class RefusalFile(Stored):
    """`refusal.json`: why the latest calibration wrote no policy.

    Attributes:
        problems: that the policy has, as sentences.
        advice: what would work, as phrases.
    """

    problems: tuple[str, ...]
    advice: tuple[str, ...]
