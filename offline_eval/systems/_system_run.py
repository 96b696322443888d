"""Make what replies are made from: models, guards and the contexts of all cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ...guard.errors import InputError
from ...guard.files import read_text, write_text
from ..data import Encoder, KnowledgeBase, QuestionRecord
from ..run import CallLimits, OnProgress, StoredPassage
from ._comparison import Systems
from ._contexts import FoundContext, Material, Wanted, find_contexts
from ._factory import PYTHON
from ._models import ModelUnderTest
from ._plan import Asked, Replayed
from ._replying import Replier
from ._retrieval import PassageIndex, Retriever
from ._retrievers import load_retriever
from ._synthetic import SyntheticQuestions, SyntheticSettings, synthetic_questions

_SEARCHING = ("basic_rag", "hyde")


class SystemRun:
    """Systems under test with their models, and the knowledge bases that they search.

    Args:
        systems: under test.
        bases: knowledge bases by name.
        encoder: makes the retriever's encoder; called only where something searches.
        top_k: passages per context, and that a guard sees of a long context.
        characters: the most characters of passages in a prompt; further passages are left
            out, and a first one that is longer by itself is cut. None: no bound.

    Raises:
        InputError: there is no such model.
        MissingDependencyError: a package is missing.
    """

    def __init__(
        self,
        systems: Systems,
        bases: Mapping[str, KnowledgeBase],
        encoder: Callable[[], Encoder],
        *,
        top_k: int = 5,
        characters: int | None = None,
    ) -> None:
        # What travels to other processes is loaded there by its name.
        self._named = systems.models
        self.systems = systems.loaded()
        self._bases, self._make_encoder = bases, encoder
        self._top_k, self._characters = top_k, characters
        self._encoder: Encoder | None = None
        self._indices: dict[str, PassageIndex] = {}

    @property
    def encoder(self) -> Encoder:
        """The retriever's encoder, loaded once."""
        if self._encoder is None:
            self._encoder = self._make_encoder()
        return self._encoder

    def index(self, base: str) -> PassageIndex:
        """The embedded passages of a knowledge base, made once."""
        if base not in self._indices:
            self._indices[base] = PassageIndex(self._bases[base], self.encoder)
        return self._indices[base]

    def writer(self) -> Runnable[Any, Any] | None:
        """The model that writes hypothetical answers and questions; None where there is none."""
        name, models = self.systems.writer, self.systems.models
        if name is not None:
            return models.get(name, ModelUnderTest(name)).loaded().asked
        return next((model.asked for model in models.values() if model.takes_prompt), None)

    def synthetic_questions(
        self, records: Sequence[QuestionRecord], *, seed: int
    ) -> SyntheticQuestions:
        """Make up questions on the topics of a knowledge base that it does not answer.

        Raises:
            InputError: there is no language model that writes, or no question.
        """
        settings = SyntheticSettings(seed=seed)
        return synthetic_questions(records, self.encoder, self.writer(), settings)

    def searches(self, items: Sequence[Asked]) -> bool:
        """Whether passages are looked for by embedding."""
        return any(one.retrieval in _SEARCHING for one in self._wanted(items))

    def require(self, items: Sequence[Asked]) -> None:
        """Make the guards and what else may turn out to be missing, before anything is asked.

        Raises:
            InputError: a guard, a retriever or the writer cannot be made.
        """
        systems = {item.system.system_id: item.system.record for item in items}
        pairs = {(one.guard, one.model): None for one in systems.values()}
        Replier(self._material({}, ())).require_guards(list(pairs))
        for name in {live.record.retrieval for live in self.systems.live}:
            if name.startswith(PYTHON):
                load_retriever(name, next(iter(self._bases.values())), lambda: self.encoder)
            if name == "hyde" and self.writer() is None:
                raise InputError(
                    "needs a language model that writes",
                    where="--retrieval hyde",
                    hint="name a chat model with --writer",
                )

    def retrieve(
        self,
        folder: Path,
        items: Sequence[Asked],
        passages: Sequence[StoredPassage],
        *,
        limits: CallLimits,
        on_progress: OnProgress | None = None,
        retry_failed: bool = False,
    ) -> Replier:
        """Find the contexts of all items, and store them and their passages.

        Contexts that the folder has are kept.

        Args:
            folder: of the run.
            items: asked now, or replayed.
            passages: of all knowledge bases and logged contexts.
            limits: of the calls that retrieving makes.
            on_progress: called after each context.
            retry_failed: look again for contexts that could not be found.

        Returns:
            What makes the replies.
        """
        contexts = find_contexts(
            folder,
            self._wanted(items),
            self._retriever,
            limits=limits,
            on_progress=on_progress,
            retry_failed=retry_failed,
        )
        _add_passages(folder / "passages.jsonl", _own_passages(contexts))
        return Replier(self._material(contexts, passages))

    def remote(self, replier: Replier) -> Callable[[], Replier]:
        """Return what makes the same replier in another process; models are loaded there."""
        models = {
            # Loaded already, to know whether it takes a prompt; its name is enough there.
            name: ModelUnderTest(name) if name.startswith(PYTHON) else model
            for name, model in self._named.items()
        }
        return partial(Replier, replace(replier.material, models=models))

    def _wanted(self, items: Sequence[Asked]) -> list[Wanted]:
        """Contexts to be found: one per case and retrieval, whatever the prompts.

        Where a guard stands in front of a long context, the nearest passages as well: it
        decides on those.
        """
        guarded = self.systems.guarded
        retrievals = list(dict.fromkeys(system.record.retrieval for system in self.systems.live))
        if guarded and "long_context" in retrievals and "basic_rag" not in retrievals:
            retrievals.append("basic_rag")
        wanted: dict[str, Wanted] = {}
        for item in items:
            names = retrievals
            if isinstance(item, Replayed):
                names = ["basic_rag"] if guarded and item.context.kind == "all_but" else []
            for name in names:
                one = Wanted(name, item.base, item.case)
                wanted.setdefault(one.context_id, one)
        return list(wanted.values())

    def _retriever(self, name: str, base: str) -> Retriever:
        return load_retriever(
            name,
            self._bases[base],
            lambda: self.encoder,
            lm=self.writer() if name == "hyde" else None,
            top_k=self._top_k,
            index=self.index(base) if name in _SEARCHING else None,
        )

    def _material(
        self, contexts: Mapping[str, FoundContext], passages: Sequence[StoredPassage]
    ) -> Material:
        held: dict[str, dict[str, str]] = {}
        loose = {}
        for passage in (*passages, *_own_passages(contexts)):
            if passage.knowledge_base:
                held.setdefault(passage.knowledge_base, {})[passage.passage_id] = passage.text
            else:
                loose[passage.passage_id] = passage.text
        paid_by: dict[str, str] = {}
        for live in self.systems.live:
            paid_by.setdefault(live.record.retrieval, live.system_id)
        return Material(
            models=self.systems.models,
            guards=self.systems.guards,
            scorer=self.systems.scorer,
            contexts=contexts,
            passages=held,
            others=loose,
            context_chars=self._characters,
            paid_by=paid_by,
        )


def _own_passages(contexts: Mapping[str, FoundContext]) -> list[StoredPassage]:
    """What a retriever of the user's own found besides the knowledge base, each once."""
    found = {one.passage_id: one for context in contexts.values() for one in context.passages}
    return list(found.values())


def _add_passages(path: Path, passages: Sequence[StoredPassage]) -> None:
    text = read_text(path, links=False)
    held = {StoredPassage.model_validate_json(line).passage_id for line in text.split("\n") if line}
    new = [passage for passage in passages if passage.passage_id not in held]
    if new:
        write_text(path, text + "".join(passage.model_dump_json() + "\n" for passage in new))
