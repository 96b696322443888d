"""Read and check everything that a run of replies is made from, and estimate what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ....guard.errors import InputError
from ....guard.policy import Policy
from ...data.bases import AskedBase, read_bases
from ...report.prose import Templates
from ...run import Question
from ...run.questions import CaseKind
from ...run.replies import ReplyCase, ReplySystem, StoredPassage
from ...systems.estimate import COUNTED, estimated_costs
from ...systems.plan import Asked, Case, Systems
from ...systems.replay import Replay
from ..parts import Overview
from ._settings import OokbSettings

WORDS = Templates(Path(__file__).parent / "replies.txt")


@dataclass(frozen=True)
class Prepared:
    """A run before its first call.

    Those of the systems that are asked now come first, case by case, so that a run that is
    interrupted has asked all systems about the same cases; then those of the logs.

    Attributes:
        settings: as given.
        bases: knowledge bases with questions.
        systems: that are asked now, with their models and guards.
        replay: logged replies.
        synthetic: made-up questions by knowledge base.
    """

    settings: OokbSettings
    bases: tuple[AskedBase, ...]
    systems: Systems
    replay: Replay
    synthetic: Mapping[str, Sequence[Question]] = field(default_factory=dict)

    @cached_property
    def items(self) -> tuple[Asked, ...]:
        """All replies of the run, those of systems that are asked now first."""
        kinds = [kind for kind in self.settings.cases if kind is not CaseKind.SYNTHETIC]
        cases = {}
        for base in self.bases if self.systems.live else ():
            passages = base.knowledge_base.passage_of
            cases[base.name] = [
                *(Case.of(q, kind, passages[q.question_id]) for q in base.asked for kind in kinds),
                *(Case.of(one, CaseKind.SYNTHETIC) for one in self.synthetic.get(base.name, ())),
            ]
        return (*self.systems.items(cases), *self.replay.items)

    @property
    def tested(self) -> tuple[ReplySystem, ...]:
        """All systems, those of the logs last."""
        return (*self.systems.live, *self.replay.systems)

    @cached_property
    def stored(
        self,
    ) -> tuple[list[Question], list[StoredPassage], list[ReplyCase], dict[str, Policy]]:
        """What the files of the run hold; see `RepliesRun.files`."""
        cases: dict[str, ReplyCase] = {}
        for item in self.items:
            case = item.case
            cases[case.case_id] = cases.get(case.case_id) or ReplyCase(
                case_id=case.case_id,
                question_id=case.question_id,
                kind=case.kind,
                knowledge_base=item.base,
                held_out=self.systems.held_out(case.question),
            )
        asked = [question for base in self.bases for question in base.questions.values()]
        made_up = [question for found in self.synthetic.values() for question in found]
        everything = {q.question_id: q for q in [*asked, *made_up, *self.replay.questions]}
        needed = {case.question_id for case in cases.values()}
        held = [passage for base in self.bases for passage in base.passages.values()]
        passages: dict[str, StoredPassage] = {}
        for passage in [*held, *self.replay.passages]:
            passages.setdefault(passage.passage_id, passage)
        guards = self.systems.guards.items()
        return (
            [q for name, q in everything.items() if name in needed],
            list(passages.values()),
            list(cases.values()),
            {name: policy for name, one in guards if (policy := one.policy) is not None},
        )


def prepare(settings: OokbSettings, models: Mapping[str, Runnable[Any, Any]]) -> Prepared:
    """Read and check everything that can be read before a model is loaded.

    Args:
        settings: of the run.
        models: objects to be tested, by name; they take the place of names in the settings.

    Raises:
        InputError: a file, a name or a combination that cannot be used.
    """
    tested = models or settings.models
    if not tested and not settings.replay:
        raise InputError(
            "no system is under test",
            where="--model, --replay",
            hint="name one; signals to calibrate on are measured by `knowgate measure`",
        )
    given = settings.model_fields_set & {"prompts", "retrievals"}
    if given and not tested:
        raise InputError(
            "is what the logs say where replies are replayed",
            where=f"--{min(given)[:-1]}",
            hint="leave it out, or add --model",
        )
    if tested and not settings.questions:
        raise InputError("none is named", where="--questions", hint="name a file of questions")
    systems = Systems.of(
        tested,
        prompts=settings.prompts,
        retrievals=settings.retrievals,
        guards=settings.guards,
        scorer=settings.scorer,
        writer=settings.writer,
        top_k=settings.top_k,
    )
    questions, limit = settings.questions, settings.limit
    bases = read_bases(questions, settings.passage, limit=limit) if questions else ()
    replay = Replay(settings.replay, bases, systems, limit=limit)
    long_contexts = any(item.context.kind == "all_but" for item in replay.items)
    if systems.guarded and long_contexts and not bases:
        raise InputError(
            "a guard decides on the passages nearest to the question, and the logs' long "
            "contexts are known by their ids alone",
            where="--guard with --replay",
            hint="name the files of the questions with --questions",
        )
    return Prepared(settings, bases, systems, replay)


def cost_table(prepared: Prepared) -> Overview:
    """Estimate replies, calls and tokens per system, without retrieving, for `--dry-run`."""
    settings = prepared.settings
    bases = {base.name: base for base in prepared.bases}
    sizes: Any = {"top_k": settings.top_k, "characters": settings.context_chars}
    found = estimated_costs(prepared.systems, prepared.items, bases, **sizes)
    guarded = {one.system_id for one in prepared.systems.live if one.guarded}
    lines = []
    for name, one in found.items():
        most, (replies, *numbers) = "≤ " if name in guarded else "", one.values()
        lines.append((name, replies, *(f"{most}{number}" for number in numbers)))
    total = {name: sum(one[name] for one in found.values()) for name in COUNTED}
    columns = ("system", "replies", "calls", "tokens in", "tokens out")
    notes = WORDS.paragraphs("estimate", total, guarded, settings, prepared.systems.asks_models)
    return Overview(columns, tuple(lines), tuple(notes), {"systems": found})
