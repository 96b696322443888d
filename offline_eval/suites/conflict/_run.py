"""Running the suite into a run folder: beliefs, evidence, instances, rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....guard.contracts import EntailmentModel, LanguageModel, ScoringLanguageModel
from ....guard.errors import InputError
from ...run import InputFile, OnStep, Run, read_table, write_table
from ...systems import LoggedReplies
from ._answering import Answerer, ModelAnswerer, ReplayAnswerer, TaskPrompter
from ._beliefs import BeliefCollector
from ._evidence import Believed, EvidenceMaker
from ._guarding import Decider, guard_rows
from ._instances import make_instances
from ._items import ConflictItem, Task
from ._plan import ConflictSettings, Planned, batches, planned
from ._prompts import PromptSet
from ._rows import (
    BELIEFS,
    EVIDENCE,
    INSTANCES,
    MODEL_SYSTEM,
    ROWS,
    SUITE,
    SYSTEMS,
    AnswerForm,
    ConflictManifest,
    Instance,
)
from ._validation import PassageJudge, Validator

# Questions put at one time, and those with all their tasks: what a kill can cost.
_AT_ONCE = 64
_INSTANCES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ConflictParts:
    """What a run is made with.

    Attributes:
        prompts: texts; the bundled ones by default.
        editor: writes passages that the data do not have.
        editor_name: as the manifest calls it.
        judges: of the passages; the first one also reads free answers.
        entailment: whether a passage's answer follows from it.
        guards: by name; each decides whether the passage of PK is removed.
        guard_sha256: by name, what tells two versions of a guard apart.
        inputs: files that the questions were read from.
        quirks: what was odd in them.
    """

    prompts: PromptSet | None = None
    editor: LanguageModel | None = None
    editor_name: str = ""
    judges: tuple[PassageJudge, ...] = ()
    entailment: EntailmentModel | None = None
    guards: Mapping[str, Decider] | None = None
    guard_sha256: Mapping[str, str] | None = None
    inputs: tuple[Path, ...] = ()
    quirks: tuple[str, ...] = ()


def run_conflict(
    model: LanguageModel | LoggedReplies,
    items: Sequence[ConflictItem],
    out: str | os.PathLike[str],
    *,
    settings: ConflictSettings | None = None,
    parts: ConflictParts | None = None,
    on_progress: OnStep | None = None,
) -> Path:
    """Find beliefs out, make evidence and put every task to a model.

    Interrupted at any point and called again with the same arguments, it goes on after the
    last whole batch. What fails becomes a row with an error.

    Args:
        model: what is asked, or logged replies (beliefs must then be given).
        items: questions with several answers.
        out: the run folder.
        settings: tasks, kinds of evidence, how beliefs and answers are found.
        parts: prompts, editor, judges, guards.
        on_progress: called with rows done and rows in all, once these are known.

    Returns:
        The run folder.

    Raises:
        InputError: settings, a guard's name or the folder cannot be used, or no question is
            left.
    """
    settings, parts = settings or ConflictSettings(), parts or ConflictParts()
    form = _form(model, settings)
    chosen = list(items[: settings.limit])
    if not chosen:
        raise InputError("no question is left to ask", where="questions")
    _check_guards(parts.guards or {})
    root, prompts = Path(out), parts.prompts or PromptSet()
    manifest = _manifest(model, chosen, settings, form, parts, prompts)
    with Run.create_or_resume(root, manifest) as run:
        instances = _instances(run, model, chosen, settings, parts, prompts)
        plan = list(planned(instances, settings.tasks, settings.kinds))
        answerer = _answerer(model, form, parts, prompts)
        _ask(run, plan, answerer, dict(parts.guards or {}), on_progress)
    return root


def _form(model: LanguageModel | LoggedReplies, settings: ConflictSettings) -> AnswerForm:
    form = settings.answers or default_form(model)
    if isinstance(model, LoggedReplies) and settings.beliefs != "given":
        raise InputError(
            "logged replies cannot be asked for beliefs", where="beliefs", hint="use given"
        )
    if form == "likelihood" and not isinstance(model, ScoringLanguageModel):
        raise InputError(
            "the model does not score options", where="answers", hint="use letters or free"
        )
    return form


def _check_guards(guards: Collection[str]) -> None:
    for name in guards:
        if name in SYSTEMS:
            raise InputError(
                f"a guard cannot be called {name!r}", where="guards", hint="give it another name"
            )


def _ask(
    run: Run,
    plan: Sequence[Planned],
    answerer: Answerer,
    guards: Mapping[str, Decider],
    on_progress: OnStep | None,
) -> None:
    guarded = [one for one in plan if one.task is Task.PK and one.system == MODEL_SYSTEM]
    total = len(plan) + len(guards) * len(guarded)
    table = run[ROWS]

    def report() -> None:
        if on_progress is not None:
            on_progress(len(table.done), total)

    # Whole batches: a local model's reply can depend on its batch in the last digit.
    for batch in batches(plan, _INSTANCES_AT_ONCE):
        if any(one.row_id not in table.done for one in batch):
            table.extend(answerer.answer(batch))
        report()
    for name, guard in guards.items():
        behind = {row.row_id: row.model_dump(mode="json") for row in table.rows()}
        for some in _parts(guarded):
            table.extend(guard_rows(name, guard, some, behind, table.done))
            report()


def default_form(model: object) -> AnswerForm:
    """Likelihoods where a model scores options and has no chat template; letters otherwise."""
    scores = isinstance(model, ScoringLanguageModel)
    return "likelihood" if scores and not getattr(model, "uses_chat_template", False) else "letters"


def _answerer(
    model: LanguageModel | LoggedReplies,
    form: AnswerForm,
    parts: ConflictParts,
    prompts: PromptSet,
) -> Answerer:
    if isinstance(model, LoggedReplies):
        return ReplayAnswerer(model, form)
    judge = parts.judges[0] if parts.judges else None
    return ModelAnswerer(model, TaskPrompter(prompts, form, model), form, judge)


def _instances(
    run: Run,
    model: LanguageModel | LoggedReplies,
    items: Sequence[ConflictItem],
    settings: ConflictSettings,
    parts: ConflictParts,
    prompts: PromptSet,
) -> list[Instance]:
    if INSTANCES.path(run.folder).exists():
        return read_table(run.folder, INSTANCES)
    lm = None if isinstance(model, LoggedReplies) else model
    by_key = {item.key: item for item in items}
    collector = BeliefCollector(lm, prompts, settings.beliefs)
    table = run[BELIEFS]
    for some in _parts(items):
        if any(item.key not in table.done for item in some):
            table.extend(collector.collect(some))
    beliefs = table.rows()
    believed = [Believed(by_key[b.key], b.belief) for b in beliefs if b.belief is not None]
    maker = EvidenceMaker(prompts, settings.kinds, parts.editor)
    validator = Validator(prompts, parts.judges, parts.entailment, lm)
    passages = run[EVIDENCE]
    for group in _parts(believed):
        wanted = {f"{one.item.key}/{kind.value}" for one in group for kind in settings.kinds}
        if not wanted <= set(passages.done):
            passages.extend(validator.validate(maker.make(group), by_key))
    instances = make_instances(believed, passages.rows(), settings.seed)
    # Last and at once: a folder with instances has all that they were made from.
    write_table(run.folder, INSTANCES, instances)
    return instances


def _parts(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[begin : begin + _AT_ONCE] for begin in range(0, len(items), _AT_ONCE)]


def _manifest(
    model: LanguageModel | LoggedReplies,
    items: Sequence[ConflictItem],
    settings: ConflictSettings,
    form: AnswerForm,
    parts: ConflictParts,
    prompts: PromptSet,
) -> ConflictManifest:
    guards = dict(parts.guards or {})
    inputs = list(parts.inputs)
    asked = "replay"
    if isinstance(model, LoggedReplies):
        inputs.append(Path(model.path))
    else:
        asked = model.fingerprint
    return ConflictManifest.new(
        suite=SUITE,
        settings={
            **asdict(settings),
            "tasks": [task.value for task in settings.tasks],
            "kinds": [kind.value for kind in settings.kinds],
            "answers": form,
            "model": asked,
            "editor": parts.editor_name,
            "judges": [judge.name for judge in parts.judges],
            "entailment": getattr(parts.entailment, "fingerprint", ""),
            "prompts": prompts.sha256,
            "guards": {name: (parts.guard_sha256 or {}).get(name, "") for name in guards},
        },
        systems=(*SYSTEMS, *guards),
        inputs=tuple(InputFile.of(path) for path in inputs),
        quirks=tuple(parts.quirks),
        questions=len(items),
        questions_sha256=_sha256(items),
    )


def _sha256(items: Sequence[ConflictItem]) -> str:
    return hashlib.sha256(repr(tuple(items)).encode("utf-8", "replace")).hexdigest()
