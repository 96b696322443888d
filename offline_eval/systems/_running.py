"""Running what was prepared: contexts, replies, labels of logs, judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ...adapters.ray import PoolSize
from ...guard import InputError
from ...guard.files import read_text, write_text
from ..ookb import CaseKind, Encoder, OokbQuestion
from ..replies import StoredPassage, holds_replies, read_replies_run, start_replies_run
from ..retrieval import PassageIndex, Retriever, load_retriever, synthetic_questions
from ..runner import CallProgress, RunTotals, open_store, run_calls_ray_sync, run_calls_sync
from ._bases import AskedBase
from ._contexts import FoundContext, find_contexts
from ._guard_choices import OFF
from ._left_out import note_left_out_check
from ._material import Material
from ._models_under_test import ModelUnderTest
from ._plan import Asked
from ._preparing import Comparison, Prepared, prepare
from ._replayed import Replayed, given_judgements
from ._replying import Replier, failed_row, make_replier
from ._settings import CallLimits, Progress, RepliesSettings

OnProgress = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class RepliesDone:
    """A finished run.

    Attributes:
        folder: where it lies.
        totals: of the replies.
        prepared: what it was made of.
    """

    folder: Path
    totals: RunTotals
    prepared: Prepared


def run_replies(
    questions: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    comparison: Comparison,
    *,
    encoder: Callable[[], Encoder],
    settings: RepliesSettings | None = None,
    limits: CallLimits | None = None,
    on_progress: OnProgress | None = None,
) -> RepliesDone:
    """Put the questions to all systems, and store what they say.

    Interrupted at any point and called again with the same arguments, it goes on and
    asks nothing twice. A call that fails for good is a row with its error.

    Args:
        questions: files, one per knowledge base.
        out: the run folder.
        comparison: what is compared.
        encoder: makes the retriever's encoder, called only where something searches.
        settings: what decides the replies.
        limits: how fast they may come.
        on_progress: told how far it is.

    Raises:
        InputError: an argument, a file or the folder cannot be used; raised before
            anything is asked, and the folder is left as it was.
        MissingDependencyError: a package is missing.
    """
    settings, limits = settings or RepliesSettings(), limits or CallLimits()
    prepared = prepare(questions, comparison, settings)
    running = _Running(Path(out), prepared, limits, encoder, on_progress)
    if CaseKind.SYNTHETIC in settings.cases and prepared.systems:
        made_up = running.made_up_questions()
        prepared = prepare(questions, comparison, settings, made_up)
        running = running.again_with(prepared)
    return running.run()


class _Running:
    """One run on its way."""

    def __init__(
        self,
        out: Path,
        prepared: Prepared,
        limits: CallLimits,
        encoder: Callable[[], Encoder],
        on_progress: OnProgress | None,
    ) -> None:
        self._out, self._limits, self._make_encoder = out, limits, encoder
        self._on_progress = on_progress
        # What travels to other processes is loaded there by its name.
        self._named = prepared.models
        loaded = {name: model.loaded() for name, model in prepared.models.items()}
        self._prepared = replace(prepared, models=loaded)
        self._encoder: Encoder | None = None
        self._indices: dict[str, PassageIndex] = {}

    def again_with(self, prepared: Prepared) -> _Running:
        """The same with what is known only after made-up questions are there."""
        models = {**self._prepared.models}
        again = _Running(
            self._out,
            replace(prepared, models=models),
            self._limits,
            self._make_encoder,
            self._on_progress,
        )
        again._named, again._encoder, again._indices = self._named, self._encoder, self._indices
        return again

    def run(self) -> RepliesDone:
        prepared = self._prepared
        # What could refuse comes before the folder is made.
        Replier(self._material({})).require_guards(self._guarded_models())
        self._require_retrievals()
        folder = start_replies_run(
            self._out,
            settings=prepared.manifest_settings(self.encoder() if prepared.searches() else None),
            systems=prepared.reply_systems(),
            questions=prepared.questions(),
            passages=prepared.passages(),
            cases=prepared.reply_cases(),
            replies=len(prepared.items()),
            inputs=prepared.inputs(),
        )
        contexts = find_contexts(
            folder,
            prepared.wanted_contexts(),
            self._retriever,
            self._limits,
            self._reporting("retrieving"),
        )
        others = _others(contexts)
        _add_passages(folder / "passages.jsonl", others)
        note_left_out_check(folder, prepared.bases, prepared.left_out(), self._index)
        totals = self._ask(folder, contexts, others)
        self._store_given(folder)
        return RepliesDone(folder, totals, prepared)

    # -- questions that nobody asked yet ------------------------------------------

    def made_up_questions(self) -> dict[str, list[OokbQuestion]]:
        """Made-up questions by knowledge base: those of the folder, or else new ones."""
        if (self._out / "manifest.json").exists() and holds_replies(self._out):
            return _made_up_before(self._out)
        found = {}
        for base in self._prepared.bases:
            made = synthetic_questions(
                base.records, self.encoder(), self._writer(), seed=self._prepared.settings.seed
            )
            found[base.name] = [
                OokbQuestion(
                    question_id=f"{base.name}/{question.question_id}",
                    question=question.question,
                    knowledge_base=base.name,
                )
                for question in made.questions
            ]
        return found

    # -- contexts -------------------------------------------------------------------

    def encoder(self) -> Encoder:
        """The retriever's encoder, loaded once."""
        if self._encoder is None:
            self._encoder = self._make_encoder()
        return self._encoder

    def _retriever(self, name: str, base: str) -> Retriever:
        found = self._base(base)
        index = self._index(found) if name in ("basic_rag", "hyde") else None
        return load_retriever(
            name,
            found.knowledge_base,
            self.encoder,
            lm=self._writer() if name == "hyde" else None,
            top_k=self._prepared.settings.top_k,
            index=index,
        )

    def _index(self, base: AskedBase) -> PassageIndex:
        if base.name not in self._indices:
            self._indices[base.name] = PassageIndex(base.knowledge_base, self.encoder())
        return self._indices[base.name]

    def _require_retrievals(self) -> None:
        """Make what may turn out not to be there: retrievers of the user's own, a writer."""
        for name in {live.retrieval for live in self._prepared.systems}:
            if name.startswith("python:"):
                load_retriever(name, self._prepared.bases[0].knowledge_base, self.encoder)
            if name == "hyde" and self._writer() is None:
                raise InputError(
                    "needs a language model that writes",
                    where="--retrieval hyde",
                    mend="name a chat model with --writer",
                )

    def _base(self, name: str) -> AskedBase:
        return next(base for base in self._prepared.bases if base.name == name)

    def _writer(self) -> Runnable[Any, Any] | None:
        name = self._prepared.comparison.writer
        if name is not None:
            known = self._prepared.models.get(name)
            return (known or ModelUnderTest(name).loaded()).asked
        for model in self._prepared.models.values():
            if model.takes_prompt:
                return model.asked
        return None

    # -- replies --------------------------------------------------------------------

    def _ask(
        self,
        folder: Path,
        contexts: Mapping[str, FoundContext],
        others: Mapping[str, StoredPassage],
    ) -> RunTotals:
        limits, items = self._limits, self._prepared.items()
        material = self._material(contexts, others)
        reporting = self._reporting("asking")
        with open_store(folder / "replies", key="reply_id", kind=limits.store) as store:
            if limits.engine == "ray":
                travelling = replace(material, models=self._named)
                return run_calls_ray_sync(
                    items,
                    partial(make_replier, travelling),
                    store,
                    key=_reply_id,
                    failed=partial(failed_row, material),
                    size=PoolSize(
                        workers=limits.workers,
                        in_flight=max(1, limits.concurrency // limits.workers),
                    ),
                    address=limits.ray_address,
                    rate=limits.rate,
                    timeout=limits.timeout,
                    max_attempts=limits.max_attempts,
                    on_progress=reporting,
                )
            replier = Replier(material)
            return run_calls_sync(
                items,
                replier,
                store,
                key=_reply_id,
                failed=replier.failed,
                max_concurrency=limits.concurrency,
                rate=limits.rate,
                timeout=limits.timeout,
                max_attempts=limits.max_attempts,
                on_progress=reporting,
            )

    def _material(
        self,
        contexts: Mapping[str, FoundContext],
        others: Mapping[str, StoredPassage] | None = None,
    ) -> Material:
        prepared = self._prepared
        held: dict[str, dict[str, str]] = {}
        loose = {}
        for passage in prepared.passages():
            if passage.knowledge_base:
                held.setdefault(passage.knowledge_base, {})[passage.passage_id] = passage.text
            else:
                loose[passage.passage_id] = passage.text
        loose.update({name: passage.text for name, passage in (others or {}).items()})
        paid_by: dict[str, str] = {}
        for live in prepared.systems:
            paid_by.setdefault(live.retrieval, live.system.system_id)
        return Material(
            models=prepared.models,
            guards=prepared.guards,
            scorer=prepared.comparison.scorer,
            contexts=contexts,
            passages=held,
            others=loose,
            context_chars=prepared.settings.context_chars,
            paid_by=paid_by,
        )

    def _guarded_models(self) -> list[tuple[str, str]]:
        live = [(one.guard, one.model) for one in self._prepared.systems]
        logged = [(one.guard, one.model) for one in self._prepared.replay.systems]
        return [pair for pair in dict.fromkeys([*live, *logged]) if pair[0] != OFF]

    def _store_given(self, folder: Path) -> None:
        if not self._prepared.replay.items:
            return
        rows = read_replies_run(folder).replies
        with open_store(
            folder / "judgements", key="judgement_id", kind=self._limits.store
        ) as store:
            waiting = [
                store.submit(one.model_dump(mode="json"))
                for one in given_judgements(self._prepared.replay, rows)
                if one.judgement_id not in store.done
            ]
            for stored in waiting:
                stored.result()

    def _reporting(self, stage: str) -> Callable[[CallProgress], object] | None:
        told = self._on_progress
        if told is None:
            return None
        return lambda progress: told(
            Progress(
                stage=stage,
                done=progress.done,
                total=progress.total,
                failed=progress.failed,
                calls=progress.calls or 0,
                input_tokens=progress.input_tokens or 0,
                output_tokens=progress.output_tokens or 0,
                eta_seconds=progress.eta_seconds,
            )
        )


def _reply_id(item: Asked | Replayed) -> str:
    return item.reply_id


def _made_up_before(folder: Path) -> dict[str, list[OokbQuestion]]:
    run = read_replies_run(folder)
    found: dict[str, list[OokbQuestion]] = {}
    for case in run.cases.values():
        if case.kind is CaseKind.SYNTHETIC:
            question = run.questions[case.question_id]
            found.setdefault(case.knowledge_base, []).append(question)
    return found


def _others(contexts: Mapping[str, FoundContext]) -> dict[str, StoredPassage]:
    return {
        passage.passage_id: passage for found in contexts.values() for passage in found.passages
    }


def _add_passages(path: Path, passages: Mapping[str, StoredPassage]) -> None:
    """Passages that a retriever of the user's own found, added to the run's."""
    text = read_text(path)
    held = {StoredPassage.model_validate_json(line).passage_id for line in text.split("\n") if line}
    new = [passage for name, passage in passages.items() if name not in held]
    if new:
        write_text(path, text + "".join(passage.model_dump_json() + "\n" for passage in new))
