"""Settings that decide the rows of a run: of replies, and of measured signals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from ....guard.signals.relevance.registry import DEFAULT_SCORER
from ...data.questions import PassageKind
from ...run.questions import CaseKind, LeaveOut
from ...run.replies import Judgement
from ..parts import SuiteSettings

_AskedKind = Literal[CaseKind.LEFT_OUT, CaseKind.IN_KB, CaseKind.SYNTHETIC]
# Field of the metadata of documents that names their source.
DEFAULT_KEY = "source"
_SYSTEMS = "Systems under test"
_PASSAGE = (
    "What a passage holds: the answer (hard), question and answer, the record's own passage, or "
    "that below its source (titled).  [default: passage where every question has one, else answer]"
)


def _option(default: Any, option: str, description: str, **limits: Any) -> Any:
    extra: dict[str, Any] = {"option": f"--{option}", "panel": _SYSTEMS}
    return Field(default, description=description, json_schema_extra=extra, **limits)


class OokbSettings(SuiteSettings):
    """What decides the replies of a run: cases, and systems under test by name."""

    questions: tuple[Path, ...] = Field(
        (),
        description="KnowOrNot question document (.json), JSON lines (.jsonl), or CSV. Each file "
        "is a knowledge base.",
    )
    scorer: str | None = Field(
        None,
        description="Scorer of the guards, by name, folder or judge:MODEL.  [default: what each "
        "policy names]",
    )
    passage: PassageKind | None = Field(None, description=_PASSAGE)
    top_k: int = Field(5, ge=1, description="Passages retrieved per case.")
    models: tuple[str, ...] = _option(
        (),
        "model",
        "Put this model under test: embedded, smollm2, a folder with Hugging Face weights, "
        "gguf:FILE, provider:model, or python:module:attribute.",
    )
    replay: tuple[Path, ...] = _option((), "replay", "Logged replies, JSON lines.")
    prompts: tuple[str, ...] = _option(
        ("basic",),
        "prompt",
        "basic, conservative, opinion, or a text file with {question} and {context}.",
    )
    retrievals: tuple[str, ...] = _option(
        ("basic_rag",),
        "retrieval",
        "direct, long_context, basic_rag, hyde, or python:module:attribute.",
    )
    guards: tuple[str, ...] = _option(
        ("off",), "guard", "off, a policy.json, or the folder of a calibrated run."
    )
    cases: tuple[_AskedKind, ...] = _option(
        (CaseKind.LEFT_OUT, CaseKind.IN_KB), "cases", "Kinds of cases, with commas between them"
    )
    writer: str | None = _option(
        None,
        "writer",
        "Model that writes for hyde and synthetic.  [default: the first --model]",
    )
    judges: tuple[str, ...] = _option(
        Judgement.OFFLINE_JUDGES, "judge", "detector, estimate, llm:MODEL, or none."
    )
    context_chars: int | None = _option(
        None,
        "context-chars",
        "The most characters of passages in a prompt, for models with a small window.",
        ge=1,
    )
    seed: int = _option(0, "seed", "Random seed.")
    limit: int | None = _option(
        None, "limit", "Ask the first so many questions of each file.", ge=1
    )

    @field_validator("cases")
    @classmethod
    def _each_kind_once(cls, cases: tuple[CaseKind, ...]) -> tuple[CaseKind, ...]:
        if not cases or len(set(cases)) < len(cases):
            raise ValueError("each kind once, and at least one — e.g. --cases left_out,in_kb")
        return cases

    @field_validator("judges")
    @classmethod
    def _no_judge_or_some(cls, judges: tuple[str, ...]) -> tuple[str, ...]:
        if "none" not in judges:
            return judges
        if len(judges) > 1:
            raise ValueError("'none' and a judge contradict each other — name one")
        return ()

    def manifest(self) -> dict[str, Any]:
        """Return what the manifest holds of the settings, besides systems and inputs."""
        names = {"cases", "passage", "top_k", "context_chars", "seed", "limit"}
        return self.model_dump(mode="json", include=names)


class MeasureSettings(SuiteSettings):
    """What decides the rows of a run.

    Attributes:
        questions: see `QuestionRecord.read`.
        scorer: name or folder, for `load_scorer`.
        passage: what a passage holds; None for the default, see `PassageKind.of`.
        top_k: passages retrieved per case.
        aggregator: how passage scores become one value; None for the scorer's own.
        chain: as it is served: `module:attribute`, see `ServedChain.load`.
        documents: folder of the documents of the knowledge base, cut into chunks.
        chunk_size: of a chunk, words at most.
        chunk_overlap: words that a chunk shares with the one before it.
        source_key: field of a document's metadata that names its source.
        leave_out: what a left-out case lacks.
        unanswerable: questions that nothing answers, see `QuestionRecord.read_unanswerable`.
    """

    questions: Path = Field(
        description="KnowOrNot question document (.json), JSON lines (.jsonl), or CSV."
    )
    chain: str | None = Field(
        None,
        description="module:attribute of what is served: a GuardedRAG, a retriever, or any "
        "runnable or function from a question to documents. Its own chunks are measured, each "
        "question once as it is and once without its source.",
    )
    documents: Path | None = Field(
        None, description="In place of --chain: a folder of documents, cut into chunks."
    )
    chunk_size: int = Field(150, ge=1, description="With --documents: words per chunk at most.")
    chunk_overlap: int = Field(0, ge=0, description="With --documents: words shared by chunks.")
    source_key: str = Field(
        DEFAULT_KEY, description="Field of a document's metadata that names its source."
    )
    leave_out: LeaveOut = Field(
        LeaveOut.SOURCE,
        description="What is left out: the source that a question names (or its own passage), the "
        "whole page that it is on, or its topic, which is the page and all pages with a passage "
        "much like the one that answers",
    )
    scorer: str | None = Field(
        None,
        description="Scorer by name (multilingual for other languages than English), a tuned or "
        "sentence-transformers folder, judge:MODEL, metadata:KEY (the number in each passage's "
        "metadata), or mix:NAME+NAME; by default that of the chain's guard, else "
        f"{DEFAULT_SCORER}.",
    )
    passage: PassageKind | None = Field(None, description=_PASSAGE)
    unanswerable: Path | None = Field(
        None,
        description="Questions that users ask and the documents do not answer, asked as they are: "
        'JSON lines or CSV with "question", and "topic" where several are on one subject.',
    )
    top_k: int = Field(5, ge=1, description="Passages retrieved per case.")
    echo: bool = Field(
        False,
        description="Measure each question once more, left out and with the question itself as "
        "the first passage: how many pass is a row of the report.",
    )
    aggregator: str | None = Field(
        None,
        description="Passage scores to one value; by default the scorer's: joint for "
        "sufficiency and judge, max for others.",
    )

    @property
    def kinds(self) -> tuple[CaseKind, ...]:
        """The kinds of cases that are measured of a question."""
        return (*CaseKind.twins(), CaseKind.ECHO) if self.echo else CaseKind.twins()

    @property
    def served(self) -> bool:
        """Whether a chain or documents are asked, in place of the passages of the questions."""
        return self.chain is not None or self.documents is not None

    @model_validator(mode="after")
    def _one_of_both(self) -> MeasureSettings:
        if self.chain is not None and self.documents is not None:
            raise ValueError("--chain and --documents are mutually exclusive — name one of both")
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError("--chunk-overlap must be below --chunk-size — name a smaller one")
        return self
