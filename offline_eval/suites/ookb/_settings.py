"""Settings that decide the rows of a run: of replies, and of measured signals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from ...data.questions import PassageKind
from ...run.questions import CaseKind, LeaveOut
from ...run.replies import Judgement
from ...systems.leaving_out import DEFAULT_KEY
from ..parts import SuiteSettings

_AskedKind = Literal[CaseKind.LEFT_OUT, CaseKind.IN_KB, CaseKind.SYNTHETIC]


def _option(default: Any, option: str, **limits: Any) -> Any:
    extra: dict[str, Any] = {"option": f"--{option}", "panel": "Systems under test"}
    return Field(default, json_schema_extra=extra, **limits)


class OokbSettings(SuiteSettings):
    """What decides the replies of a run: cases, and systems under test by name.

    Attributes:
        questions: KnowOrNot question document (.json), JSON lines (.jsonl), or CSV. Each file is a
            knowledge base.
        scorer: Scorer of the guards, by name, folder, judge:MODEL or python:module:attribute.
            [default: what each policy names]
        passage: What a passage holds: the answer (hard), question and answer, the record's own
            passage, or that below its source (titled).  [default: passage where every question
            has one, else answer]
        top_k: Passages retrieved per case.
        models: Put this model under test: embedded, smollm2, a folder with Hugging Face weights,
            gguf:FILE, provider:model, or python:module:attribute.
        replay: Logged replies, JSON lines.
        prompts: basic, conservative, opinion, or a text file with {question} and {context}.
        retrievals: direct, long_context, basic_rag, hyde, or python:module:attribute.
        guards: off, a policy.json, the folder of a calibrated run, or python:module:attribute.
        cases: Kinds of cases, with commas between them
        writer: Model that writes for hyde and synthetic.  [default: the first --model]
        judges: detector, estimate, llm:MODEL, or none.
        context_chars: The most characters of passages in a prompt, for models with a small window.
        seed: Random seed.
        limit: Ask the first so many questions of each file.
    """

    questions: tuple[Path, ...] = ()
    scorer: str | None = None
    passage: PassageKind | None = None
    top_k: int = Field(5, ge=1)
    models: tuple[str, ...] = _option((), "model")
    replay: tuple[Path, ...] = _option((), "replay")
    prompts: tuple[str, ...] = _option(("basic",), "prompt")
    retrievals: tuple[str, ...] = _option(("basic_rag",), "retrieval")
    guards: tuple[str, ...] = _option(("off",), "guard")
    cases: tuple[_AskedKind, ...] = _option((CaseKind.LEFT_OUT, CaseKind.IN_KB), "cases")
    writer: str | None = _option(None, "writer")
    judges: tuple[str, ...] = _option(Judgement.OFFLINE_JUDGES, "judge")
    context_chars: int | None = _option(None, "context-chars", ge=1)
    seed: int = _option(0, "seed")
    limit: int | None = _option(None, "limit", ge=1)

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


class MeasureSettings(SuiteSettings):
    """What decides the rows of a run.

    Attributes:
        questions: KnowOrNot question document (.json), JSON lines (.jsonl), or CSV.
        chain: module:attribute of what is served: a GuardedRAG, a retriever, or any runnable or
            function from a question to documents. Its own chunks are measured, each question once
            as it is and once without its source.
        documents: In place of --chain: a folder of documents, cut into chunks.
        chunk_size: With --documents: words per chunk at most.
        chunk_overlap: With --documents: words shared by chunks.
        source_key: Field of a document's metadata that names its source.
        leave_out: What is left out: the source that a question names (or its own passage), the
            whole page that it is on, or its topic, which is the page and all pages with a passage
            much like the one that answers
        scorer: Scorer by name (multilingual for other languages than English), a tuned or
            sentence-transformers folder, judge:MODEL, metadata:KEY (the number in each passage's
            metadata), mix:NAME+NAME, or python:module:attribute; by default that of the chain's
            guard, else sufficiency.
        passage: What a passage holds: the answer (hard), question and answer, the record's own
            passage, or that below its source (titled).  [default: passage where every question
            has one, else answer]
        unanswerable: Questions that users ask and the documents do not answer, asked as they are:
            JSON lines or CSV with "question", and "topic" where several are on one subject.
        top_k: Passages retrieved per case.
        echo: Measure each question once more, left out and with the question itself as the first
            passage: how many pass is a row of the report.
        aggregator: Passage scores to one value; by default the scorer's: joint for sufficiency
            and judge, max for others.
    """

    questions: Path
    chain: str | None = None
    documents: Path | None = None
    chunk_size: int = Field(150, ge=1)
    chunk_overlap: int = Field(0, ge=0)
    source_key: str = DEFAULT_KEY
    leave_out: LeaveOut = LeaveOut.SOURCE
    scorer: str | None = None
    passage: PassageKind | None = None
    unanswerable: Path | None = None
    top_k: int = Field(5, ge=1)
    echo: bool = False
    aggregator: str | None = None

    @property
    def served(self) -> bool:
        """Whether a chain or documents are asked, in place of the passages of the questions."""
        return self.chain is not None or self.documents is not None

    @model_validator(mode="after")
    def _one_of_both(self) -> MeasureSettings:
        if self.chain is not None and self.documents is not None:
            raise ValueError("--chain and --documents are mutually exclusive — name one of both")
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError("chunk-overlap must be below chunk-size — name a smaller one")
        return self
