"""The lines and files of a run folder, as far as the report needs them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from ...guard import Fingerprint

RUN_SCHEMA_VERSION = 1

Identifier = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]


class _Artefact(BaseModel):
    # Unknown fields are left alone: a later writer may add some without a new schema.
    model_config = ConfigDict(frozen=True, extra="ignore")


class RunSettings(_Artefact):
    """How the run was made.

    Attributes:
        scorer: fingerprint of the relevance scorer.
        aggregator: how passage scores became one value per question.
        retrieval: name of the retrieval strategy.
        top_k: passages per question.
        passage: what stands in the knowledge base for a question.
    """

    scorer: Fingerprint
    aggregator: str
    retrieval: str
    top_k: Annotated[int, Field(gt=0)]
    passage: str


class InputFile(_Artefact):
    """A file that the run was made from."""

    name: str
    sha256: str


class Manifest(_Artefact):
    """`manifest.json`.

    Attributes:
        settings: checked settings.
        questions: how many the run was started with.
        cases: how many it was meant to have.
    """

    suite: str
    created_by: str = ""
    settings: RunSettings
    inputs: tuple[InputFile, ...] = ()
    questions: Count
    cases: Count


class QuestionRow(_Artefact):
    """A line of `questions.jsonl`.

    Attributes:
        passage: what stands in the knowledge base for the question.
        passage_id: its id there; questions with the same text share one. Where it is
            missing, the passage goes by the question's own id.
    """

    question_id: Identifier
    question: str
    answer: str = ""
    passage: str = ""
    passage_id: str = ""

    @property
    def own_passage(self) -> str:
        """Id of the passage that holds the answer."""
        return self.passage_id or self.question_id


class CaseError(_Artefact):
    """Why a case could not be measured."""

    type: str
    detail: str = ""


class CaseRow(_Artefact):
    """A line of `rows.jsonl`.

    Attributes:
        kind: `in_kb` with the whole knowledge base, `left_out` without the own passage.
        retrieved: ids of the passages, best first.
        scores: raw relevance per retrieved passage, None for one without text.
        raw_relevance: the aggregated score, None where nothing was retrieved or the
            case failed.
        retrieval_miss: the own passage was there and was not retrieved.
        error: None unless the case failed.
    """

    case_id: Identifier
    question_id: Identifier
    kind: Literal["in_kb", "left_out"]
    retrieved: tuple[str, ...] = ()
    scores: tuple[FiniteFloat | None, ...] = ()
    raw_relevance: FiniteFloat | None
    retrieval_miss: bool = False
    error: CaseError | None = None

    @model_validator(mode="after")
    def _consistent(self) -> CaseRow:
        if self.error is not None:
            return self
        if len(self.scores) != len(self.retrieved):
            raise ValueError("scores and retrieved differ in length")
        if self.retrieved and self.raw_relevance is None:
            raise ValueError("raw_relevance is missing although there is no error")
        return self


class CalibrationFile(_Artefact):
    """`calibration.json`; the policy in it is parsed apart.

    Attributes:
        risk: the bound that was asked for, None where nothing was.
        delta: the probability that the bound fails, None likewise.
        calibration_questions: what the policy was fitted on.
        test_questions: what was held out for this report.
    """

    policy: dict[str, Any]
    risk: Annotated[float, Field(gt=0, lt=1)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    calibration_questions: tuple[str, ...]
    test_questions: tuple[str, ...]
