"""Running the suite into a run folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from ...._version import __version__
from ....guard.contracts import LanguageModel
from ....guard.decision import Decision
from ....guard.errors import InputError, KnowgateError
from ....guard.files import file_sha256, write_json
from ...data.uaqfact import Layout, UaqData, UaqItem, read_layout, write_layout
from ...run import SCHEMA_VERSION, Table, holds_run, open_store, stored_rows
from ...systems import LoggedReplies, choose_reply
from ._answering import Answerer, FactRetriever, ModelAnswerer, ReplayAnswerer
from ._plan import (
    MODEL_SYSTEM,
    QUESTIONS,
    SUITE,
    Planned,
    UaqRow,
    UaqSettings,
    batches,
    limited,
    planned,
    row_id,
)
from ._prompting import NO_ANSWER, Prompter, Prompts, clue_facts

Progress = Callable[[int, int], None]

# Questions put at one time: what a kill can cost.
_AT_ONCE = 64


class Decider(Protocol):
    """A guard: `knowgate.guard.Guard`, or something that decides like it."""

    def decide(self, question: str, passages: Sequence[str]) -> Decision:
        """Whether the facts let the question be answered."""
        ...


@dataclass(frozen=True, slots=True)
class UaqParts:
    """What a run is made with.

    Attributes:
        prompts: texts; the bundled ones by default.
        guards: by name, in front of the model in task 3: facts are their passages. Where one
            abstains, `##None##` is the reply; where it answers from memory, what the model said
            to the question alone, if the run has task 1; otherwise the model's own reply.
        guard_sha256: by name, what tells two versions of a guard apart.
        answer_tokens: kept free for the answer in prompts.
    """

    prompts: Prompts | None = None
    guards: Mapping[str, Decider] | None = None
    guard_sha256: Mapping[str, str] | None = None
    answer_tokens: int = 64


def run_uaqfact(
    model: LanguageModel | LoggedReplies,
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    settings: UaqSettings | None = None,
    parts: UaqParts | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Put every question to a model, and to guards in front of it.

    Interrupted at any point and called again with the same arguments, it goes on after the
    last whole batch. Questions that fail become rows with an error.

    Args:
        model: what is asked, or logged replies.
        folder: questions in the published layout, see `read_layout`.
        out: the run folder.
        settings: tasks, languages, forms, sizes.
        parts: prompts and guards.
        on_progress: called with rows done and rows in all.

    Returns:
        The run folder.

    Raises:
        InputError: data, settings or folder cannot be used.
    """
    settings, parts = settings or UaqSettings(), parts or UaqParts()
    data = limited(
        read_layout(folder, languages=settings.languages, tasks=settings.tasks), settings.limit
    )
    plan = list(planned(data, settings))
    guarded = [p for p in plan if p.form in ("clue", "facts", "retrieved")]
    guards = dict(parts.guards or {})
    total = len(plan) + len(guards) * len(guarded)
    if not plan:
        raise InputError("no question is left to ask", where=os.fspath(folder))
    root = Path(out)
    _start(root, _manifest(model, Path(folder), data, settings, parts, total), data)
    retriever = FactRetriever(data.items, settings.facts) if "retrieved" in settings.forms else None
    answerer = _answerer(model, data, settings, parts, retriever)
    with open_store(root / "rows", key="row_id") as store:
        progress = _Counter(store, total, on_progress)
        _ask(store, answerer, plan, progress)
        for name, guard in guards.items():
            _guard(store, root, name, guard, guarded, retriever, progress)
    return root


class _Counter:
    def __init__(self, store: Table[Any], total: int, on_progress: Progress | None) -> None:
        self._store, self._total, self._report = store, total, on_progress

    def __call__(self) -> None:
        if self._report is not None:
            self._report(len(self._store.done), self._total)


def _answerer(
    model: LanguageModel | LoggedReplies,
    data: UaqData,
    settings: UaqSettings,
    parts: UaqParts,
    retriever: FactRetriever | None,
) -> Answerer:
    if isinstance(model, LoggedReplies):
        return ReplayAnswerer(model)
    prompter = Prompter(
        data,
        parts.prompts or Prompts(),
        shots=settings.shots,
        model=model,
        answer_tokens=parts.answer_tokens,
    )
    return ModelAnswerer(model, prompter, retriever, choose_by=settings.choose_by)


def _ask(
    store: Table[Any], answerer: Answerer, plan: Sequence[Planned], progress: Callable[[], None]
) -> None:
    # Whole batches: a local model's reply can hang on its neighbours in the last digit.
    for batch in batches(plan, _AT_ONCE):
        missing = [p for p in batch if row_id(MODEL_SYSTEM, p.form, p.item.key) not in store.done]
        if missing:
            for row in answerer.answer(batch):
                if row.row_id not in store.done:
                    store.append(row.model_dump(mode="json"))
        progress()


def _guard(
    store: Table[Any],
    root: Path,
    name: str,
    guard: Decider,
    plan: Sequence[Planned],
    retriever: FactRetriever | None,
    progress: Callable[[], None],
) -> None:
    """Rows of a guard in front of the model: its own decisions, the model's own replies."""
    replies = {
        value["row_id"]: value
        for _, value in stored_rows(root / "rows")
        if value.get("system") == MODEL_SYSTEM
    }
    for number, p in enumerate(plan):
        identifier = row_id(name, p.form, p.item.key)
        if identifier in store.done or not isinstance(p.item, UaqItem):
            continue
        behind = replies[row_id(MODEL_SYSTEM, p.form, p.item.key)]
        alone = replies.get(row_id(MODEL_SYSTEM, "question", p.item.key))
        row = {**behind, "row_id": identifier, "system": name}
        try:
            decision = guard.decide(p.item.question, _facts(p, retriever))
        except KnowgateError as error:
            row |= {
                "response": None,
                "error": {"type": type(error).__name__, "detail": str(error)},
            }
        else:
            own = {"route": decision.route.value, "reason": str(decision.reason)}
            memory = {name: (alone or behind)[name] for name in ("response", "error", "shots")}
            # No call of the model was needed to abstain: its failure does not matter.
            abstained = {"response": NO_ANSWER, "error": None, "shots": 0}
            row |= own | choose_reply(
                decision, with_context={}, closed_book=memory, abstention=abstained
            )
        store.append(UaqRow.model_validate(row).model_dump(mode="json"))
        if number % _AT_ONCE == 0:
            progress()
    progress()


def _facts(planned_item: Planned, retriever: FactRetriever | None) -> list[str]:
    item = planned_item.item
    assert isinstance(item, UaqItem)  # task 2 has no guard
    if planned_item.form == "retrieved" and retriever is not None:
        return retriever.retrieve([item])[0]
    return clue_facts(item)


def _manifest(
    model: LanguageModel | LoggedReplies,
    folder: Path,
    data: UaqData,
    settings: UaqSettings,
    parts: UaqParts,
    rows: int,
) -> dict[str, Any]:
    guards = dict(parts.guards or {})
    if isinstance(model, LoggedReplies):
        asked, inputs = "replay", [Path(model.path)]
    else:
        asked, inputs = model.fingerprint, []
    # Those that were read: the folder may hold other sets, and this very run.
    layout = Layout(folder)
    inputs += [path for name in data.languages for path in layout.needed(name, settings.tasks)]
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": SUITE,
        "created_by": f"knowgate {__version__}",
        "settings": {
            **asdict(settings),
            "tasks": list(settings.tasks),
            "languages": list(data.languages),
            "forms": list(settings.forms),
            "model": asked,
            "prompts": (parts.prompts or Prompts()).sha256,
            "guards": {name: (parts.guard_sha256 or {}).get(name, "") for name in guards},
        },
        "systems": [MODEL_SYSTEM, *guards],
        "inputs": [{"name": path.name, "sha256": file_sha256(path)} for path in inputs],
        "quirks": list(data.quirks),
        "rows": rows,
    }


def _start(root: Path, manifest: Mapping[str, Any], data: UaqData) -> None:
    """Write the manifest, or find that the folder holds this very run."""
    if not holds_run(root, manifest, own=[QUESTIONS]):
        # First the questions: a folder with a manifest has all that it speaks of.
        write_layout(data, root / QUESTIONS)
        write_json(root / "manifest.json", dict(manifest))
