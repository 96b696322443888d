"""From arguments to everything that a run is: read, checked, and nothing asked yet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ....adapters.langchain import ChatModelLM
from ....guard.errors import DeviceError, InputError, MissingDependencyError, ModelFolderError
from ....guard.files import write_text
from ...data import Encoder
from ...run import CaseKind, InputFile, Question, ReplyCase, ReplySystem, StoredPassage
from ...systems import (
    RETRIEVALS,
    AnswerElsewhere,
    Asked,
    AskedBase,
    Case,
    GuardChoice,
    LiveSystem,
    ModelUnderTest,
    PassageIndex,
    Replay,
    Replayed,
    RepliesSettings,
    Wanted,
    all_asked,
    cases_of,
    held_out_of,
    left_out_check,
    live_systems,
    load_guard_choices,
    load_system_prompts,
    read_bases,
    read_replay,
    reply_case,
)

LEFT_OUT_FILE = "left_out_check.jsonl"


def note_left_out_check(
    folder: Path,
    bases: Sequence[AskedBase],
    left_out: Collection[str],
    index: Callable[[AskedBase], PassageIndex],
) -> None:
    """Write which other passages may answer a question whose own was taken out.

    Nothing is written where the file is there already, where nothing was taken out of a
    known knowledge base, or where the encoder is not there: the run can do without.

    Args:
        folder: of the run.
        bases: that were asked about.
        left_out: ids of the questions whose passage was taken out.
        index: embedded passages of a base.
    """
    path = folder / LEFT_OUT_FILE
    asked = {
        base.name: [record for record in base.asked if record.question_id in left_out]
        for base in bases
    }
    if path.exists() or not any(asked.values()):
        return
    found: list[AnswerElsewhere] = []
    try:
        for base in bases:
            if asked[base.name]:
                embedded = index(base)
                found += left_out_check(
                    asked[base.name], base.knowledge_base, embedded.encoder, index=embedded
                )
    except (DeviceError, MissingDependencyError, ModelFolderError):
        return
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in found)
    write_text(path, "".join(lines))


_SEARCHING = ("basic_rag", "hyde")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: every model with every prompt, retrieval and guard.

    Attributes:
        models: names as `load_chat_model` takes them, or name → runnable.
        prompts: names of bundled prompts, or files.
        retrievals: names as `load_retriever` takes them.
        guards: `off`, files of policies, or folders of calibrated runs.
        replay: logs of replies; guards are put in front of these, too.
        scorer: of the guards, by name; None for the one that each policy names.
        writer: name of the model that writes for HyDE and makes up questions; None for
            the first of the models.
    """

    models: Sequence[str] | Mapping[str, Runnable[Any, Any]] = ()
    prompts: Sequence[str] = ("basic",)
    retrievals: Sequence[str] = ("basic_rag",)
    guards: Sequence[str | os.PathLike[str]] = ("off",)
    replay: Sequence[str | os.PathLike[str]] = ()
    scorer: str | None = None
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run before its first call.

    Attributes:
        comparison: as given.
        settings: as given.
        bases: knowledge bases with questions.
        models: under test, by name; not loaded yet unless given as runnables.
        guards: by name.
        systems: that are asked now.
        cases: of those, by knowledge base.
        replay: logged replies.
    """

    comparison: Comparison
    settings: RepliesSettings
    bases: tuple[AskedBase, ...]
    models: Mapping[str, ModelUnderTest]
    guards: Mapping[str, GuardChoice]
    systems: tuple[LiveSystem, ...]
    cases: Mapping[str, Sequence[Case]]
    replay: Replay
    synthetic: Mapping[str, Sequence[Question]] = field(default_factory=dict)

    def items(self) -> list[Asked | Replayed]:
        """All replies of the run: those to be asked for, then those of the logs."""
        return [*all_asked(self.systems, self.cases), *self.replay.items]

    def reply_systems(self) -> list[ReplySystem]:
        """All systems under test."""
        return [*(s.system for s in self.systems), *(s.system for s in self.replay.systems)]

    def reply_cases(self) -> list[ReplyCase]:
        """All cases, each once, with whether the guards' policies have seen them."""
        choices = list(self.guards.values())
        found = {
            case.case_id: reply_case(case, base, choices)
            for base, cases in self.cases.items()
            for case in cases
        }
        texts = {one.question_id: one.question for one in self.replay.questions}
        for logged in self.replay.cases:
            held_out = held_out_of(choices, texts[logged.question_id])
            found.setdefault(logged.case_id, logged.model_copy(update={"held_out": held_out}))
        return list(found.values())

    def left_out(self) -> frozenset[str]:
        """Questions whose passage is taken out in some case."""
        cases = self.reply_cases()
        return frozenset(one.question_id for one in cases if one.kind is CaseKind.LEFT_OUT)

    def questions(self) -> list[Question]:
        """The questions of all cases."""
        asked = [question for base in self.bases for question in base.questions()]
        made_up = [question for found in self.synthetic.values() for question in found]
        everything = {q.question_id: q for q in [*asked, *made_up, *self.replay.questions]}
        needed = {case.question_id for case in self.reply_cases()}
        return [q for name, q in everything.items() if name in needed]

    def passages(self) -> list[StoredPassage]:
        """The passages of all knowledge bases, and of logged contexts."""
        found = {p.passage_id: p for base in self.bases for p in base.passages()}
        for passage in self.replay.passages:
            found.setdefault(passage.passage_id, passage)
        return list(found.values())

    def inputs(self) -> list[InputFile]:
        """The files that the run is made from."""
        logs = [InputFile.of(path) for path in self.comparison.replay]
        return [*(base.file for base in self.bases), *logs]

    def wanted_contexts(self) -> list[Wanted]:
        """Contexts to be found: one per case and retrieval, whatever the prompts.

        Where a guard stands before a long context, the nearest passages as well: it
        decides on those.
        """
        guarded = any(choice.policy is not None for choice in self.guards.values())
        retrievals = list(dict.fromkeys(system.retrieval for system in self.systems))
        if guarded and "long_context" in retrievals and "basic_rag" not in retrievals:
            retrievals.append("basic_rag")
        wanted = {
            (retrieval, case.case_id): Wanted(retrieval, base, case)
            for base, cases in self.cases.items()
            for case in cases
            for retrieval in retrievals
        }
        for item in self.replay.items if guarded else ():
            if item.context.kind == "all_but":
                key = ("basic_rag", item.case.case_id)
                wanted.setdefault(key, Wanted("basic_rag", item.base, item.case))
        return list(wanted.values())

    def searches(self) -> bool:
        """Whether passages are looked for by embedding."""
        return any(one.retrieval in _SEARCHING for one in self.wanted_contexts())

    def manifest_settings(self, encoder: Encoder | None) -> dict[str, Any]:
        """What decides the replies besides systems and inputs."""
        return {
            **self.settings.manifest(),
            "scorer": self.comparison.scorer,
            "writer": self.comparison.writer,
            "models": {
                name: ChatModelLM(model.asked).fingerprint for name, model in self.models.items()
            },
            "retriever": None if encoder is None else encoder.fingerprint.model_dump(),
        }


def prepare(
    questions: Sequence[str | os.PathLike[str]],
    comparison: Comparison,
    settings: RepliesSettings,
    synthetic: Mapping[str, Sequence[Question]] | None = None,
) -> Prepared:
    """Read and check everything that can be read before a model is loaded.

    Args:
        questions: files, one per knowledge base; may be none where there are logs only.
        comparison: what is compared.
        settings: of the run.
        synthetic: made-up questions by knowledge base.

    Raises:
        InputError: a file, a name or a combination that cannot be used.
    """
    _check(questions, comparison)
    guards = load_guard_choices(comparison.guards)
    if comparison.scorer is not None and not any(choice.policy for choice in guards):
        raise InputError(
            "is what a guard decides by, and no guard is under test",
            where="--scorer",
            hint="add --guard, or leave it out",
        )
    bases = read_bases(questions, settings.passage, limit=settings.limit) if questions else ()
    models = _models(comparison.models)
    prompts = load_system_prompts(comparison.prompts)
    systems = live_systems(models, prompts, comparison.retrievals, guards, top_k=settings.top_k)
    replay = read_replay(
        comparison.replay,
        bases,
        guards,
        limit=settings.limit,
        taken=[live.system.system_id for live in systems],
    )
    if not bases and any(choice.policy for choice in guards):
        _refuse_unsearchable(replay)
    made_up = synthetic or {}
    cases = {
        base.name: cases_of(base, settings.cases, made_up.get(base.name, ())) for base in bases
    }
    return Prepared(
        comparison=comparison,
        settings=settings,
        bases=bases,
        models={model.name: model for model in models},
        guards={choice.name: choice for choice in guards},
        systems=tuple(systems),
        cases=cases if systems else {},
        replay=replay,
        synthetic=made_up if CaseKind.SYNTHETIC in settings.cases and systems else {},
    )


def _check(questions: Sequence[str | os.PathLike[str]], comparison: Comparison) -> None:
    if not comparison.models and not comparison.replay:
        raise InputError(
            "nothing is under test", where="--model, --replay", hint="name a model or a log"
        )
    if comparison.models and not questions:
        raise InputError("none is named", where="--questions", hint="name a file of questions")
    for name in comparison.retrievals:
        if name not in RETRIEVALS and not name.startswith("python:"):
            raise InputError(
                f"there is no retrieval {name!r}",
                where="--retrieval",
                hint=f"one of: {', '.join(RETRIEVALS)}; or python:module:attribute",
            )
    _refuse_doubles("--retrieval", comparison.retrievals)


def _refuse_unsearchable(replay: Replay) -> None:
    if any(item.context.kind == "all_but" for item in replay.items):
        raise InputError(
            "a guard decides on the passages nearest to the question, and the logs' long "
            "contexts are known by their ids alone",
            where="--guard with --replay",
            hint="name the files of the questions with --questions",
        )


def _models(named: Sequence[str] | Mapping[str, Runnable[Any, Any]]) -> list[ModelUnderTest]:
    if isinstance(named, Mapping):
        return [ModelUnderTest(name, runnable) for name, runnable in named.items()]
    _refuse_doubles("--model", named)
    # An object of the user's own tells only once it is there whether it takes a prompt.
    return [
        ModelUnderTest(name).loaded() if name.startswith("python:") else ModelUnderTest(name)
        for name in named
    ]


def _refuse_doubles(option: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InputError(f"{name!r} is named twice", where=option, hint="name it once")
