"""Running the suite into a run folder: beliefs, evidence, instances, rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...._version import __version__
from ....guard.contracts import EntailmentModel, LanguageModel, ScoringLanguageModel
from ....guard.errors import InputError
from ....guard.files import atomic_writer, file_sha256, write_json
from ...run import SCHEMA_VERSION, Table, holds_run, open_store, stored_rows
from ...systems import LoggedReplies
from ._answering import Answerer, ModelAnswerer, ReplayAnswerer, TaskPrompter
from ._beliefs import BeliefCollector
from ._evidence import Believed, EvidenceMaker
from ._guarding import Decider, guard_rows
from ._instances import make_instances
from ._items import ConflictItem, Task
from ._plan import ConflictSettings, Planned, batches, planned
from ._prompts import PromptSet
from ._rows import MODEL_SYSTEM, SUITE, SYSTEMS, AnswerForm, BeliefRow, EvidenceRow, Instance
from ._validation import PassageJudge, Validator

Progress = Callable[[int, int], None]

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
    on_progress: Progress | None = None,
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
    _start(root, _manifest(model, chosen, settings, form, parts, prompts))
    instances = _instances(root, model, chosen, settings, parts, prompts)
    plan = list(planned(instances, settings.tasks, settings.kinds))
    _ask(root, plan, _answerer(model, form, parts, prompts), dict(parts.guards or {}), on_progress)
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
    root: Path,
    plan: Sequence[Planned],
    answerer: Answerer,
    guards: Mapping[str, Decider],
    on_progress: Progress | None,
) -> None:
    guarded = [one for one in plan if one.task is Task.PK and one.system == MODEL_SYSTEM]
    total = len(plan) + len(guards) * len(guarded)
    with open_store(root / "rows", key="row_id") as store:

        def report() -> None:
            if on_progress is not None:
                on_progress(len(store.done), total)

        # Whole batches: a local model's reply can hang on its neighbours in the last digit.
        for batch in batches(plan, _INSTANCES_AT_ONCE):
            if any(one.row_id not in store.done for one in batch):
                _append(store, [row.model_dump(mode="json") for row in answerer.answer(batch)])
            report()
        for name, guard in guards.items():
            behind = {value["row_id"]: value for _, value in stored_rows(root / "rows")}
            for some in _parts(guarded):
                _append(store, guard_rows(name, guard, some, behind, store.done))
                report()


def default_form(model: object) -> AnswerForm:
    """Likelihoods where a model scores options and has no chat template; letters otherwise."""
    scores = isinstance(model, ScoringLanguageModel)
    return "likelihood" if scores and not getattr(model, "uses_chat_template", False) else "letters"


def _append(store: Table[Any], rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        if row["row_id"] not in store.done:
            store.append(row)


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
    root: Path,
    model: LanguageModel | LoggedReplies,
    items: Sequence[ConflictItem],
    settings: ConflictSettings,
    parts: ConflictParts,
    prompts: PromptSet,
) -> list[Instance]:
    path = root / "instances.jsonl"
    if path.exists():
        return [Instance.model_validate(v) for _, v in stored_rows(root / "instances")]
    lm = None if isinstance(model, LoggedReplies) else model
    by_key = {item.key: item for item in items}
    collector = BeliefCollector(lm, prompts, settings.beliefs)
    with open_store(root / "beliefs", key="key") as store:
        for some in _parts(items):
            if any(item.key not in store.done for item in some):
                for row in collector.collect(some):
                    if row.key not in store.done:
                        store.append(row.model_dump(mode="json"))
    beliefs = [BeliefRow.model_validate(v) for _, v in stored_rows(root / "beliefs")]
    believed = [Believed(by_key[b.key], b.belief) for b in beliefs if b.belief is not None]
    maker = EvidenceMaker(prompts, settings.kinds, parts.editor)
    validator = Validator(prompts, parts.judges, parts.entailment, lm)
    with open_store(root / "evidence", key="row_id") as store:
        for group in _parts(believed):
            wanted = {f"{one.item.key}/{kind.value}" for one in group for kind in settings.kinds}
            if not wanted <= set(store.done):
                rows = validator.validate(maker.make(group), by_key)
                _append(store, [row.model_dump(mode="json") for row in rows])
    evidence = [EvidenceRow.model_validate(v) for _, v in stored_rows(root / "evidence")]
    instances = make_instances(believed, evidence, settings.seed)
    # Last and at once: a folder with instances has all that they were made from.
    with atomic_writer(path) as file:
        for instance in instances:
            file.write(instance.model_dump_json() + "\n")
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
) -> dict[str, Any]:
    guards = dict(parts.guards or {})
    inputs = list(parts.inputs)
    asked = "replay"
    if isinstance(model, LoggedReplies):
        inputs.append(Path(model.path))
    else:
        asked = model.fingerprint
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": SUITE,
        "created_by": f"knowgate {__version__}",
        "settings": {
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
        "systems": [*SYSTEMS, *guards],
        "inputs": [{"name": path.name, "sha256": file_sha256(path)} for path in inputs],
        "quirks": list(parts.quirks),
        "questions": len(items),
        "questions_sha256": _sha256(items),
    }


def _sha256(items: Sequence[ConflictItem]) -> str:
    return hashlib.sha256(repr(tuple(items)).encode("utf-8", "replace")).hexdigest()


def _start(root: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, or find that the folder holds this very run."""
    if not holds_run(root, manifest):
        root.mkdir(parents=True, exist_ok=True)
        write_json(root / "manifest.json", dict(manifest))
