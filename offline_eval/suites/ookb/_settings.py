"""Settings that decide the replies of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from ...data import PassageKind
from ...run import CaseKind
from ...systems import DEFAULT_JUDGES
from ..base import SuiteSettings

_AskedKind = Literal[CaseKind.LEFT_OUT, CaseKind.IN_KB, CaseKind.SYNTHETIC]
_SYSTEMS = "Systems under test"


def _option(default: Any, option: str, description: str, **limits: Any) -> Any:
    extra: dict[str, Any] = {"option": f"--{option}", "panel": _SYSTEMS}
    return Field(default, description=description, json_schema_extra=extra, **limits)


class OokbSettings(SuiteSettings):
    """What decides the replies of a run: cases, and systems under test by name."""

    questions: tuple[Path, ...] = Field(
        (),
        description="KnowOrNot question document (.json), or JSON lines (.jsonl). Each file is a "
        "knowledge base.",
    )
    scorer: str | None = Field(
        None,
        description="Scorer of the guards, by name or folder.  [default: what each policy names]",
    )
    passage: PassageKind | None = Field(
        None,
        description="What a passage holds: the answer (hard), question and answer, or the "
        "record's own passage.  [default: passage where every question has one, else answer]",
    )
    top_k: int = Field(5, ge=1, description="Passages retrieved per case.")
    models: tuple[str, ...] = _option(
        (),
        "model",
        "Put this model under test: embedded, a folder with Hugging Face weights, provider:model, "
        "or python:module:attribute.",
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
        DEFAULT_JUDGES, "judge", "detector, estimate, llm:MODEL, or none."
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
