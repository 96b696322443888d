"""Systems under test with their models, and the contexts that they are given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ...guard.errors import InputError, MissingDependencyError
from ...guard.registry import PYTHON
from ..data.embedding import Encoder
from ..data.questions import KnowledgeBase
from ..run import RowError
from ..run.calls import NO_TIMEOUT, Calls, RunOptions
from ..run.replies import PASSAGES, StoredPassage
from ..run.table import TableSpec
from ._retrievers import load_retriever
from .factory import load_chat_model
from .models import takes_prompt
from .plan import Asked, Case, Systems
from .replying import Replier, context_id
from .retrieval import PassageIndex, Retrieved, Retriever, require_model

_SEARCHING = ("basic_rag", "hyde")
_CONTEXTS = TableSpec("contexts", Retrieved, "context_id")
# A context to be found: retrieval, knowledge base and case.
_Wanted = tuple[str, str, Case]


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
        self._indices: dict[str, PassageIndex] = {}

    @cached_property
    def encoder(self) -> Encoder:
        """The retriever's encoder, loaded once."""
        return self._make_encoder()

    def index(self, base: str) -> PassageIndex:
        """The embedded passages of a knowledge base, made once."""
        if base not in self._indices:
            self._indices[base] = PassageIndex(self._bases[base], self.encoder)
        return self._indices[base]

    def writer(self) -> Runnable[Any, Any] | None:
        """The model that writes hypothetical answers and questions; None where there is none."""
        name, models = self.systems.writer, self.systems.models
        if name is not None:
            found = models.get(name)
            return load_chat_model(name) if found is None else found
        return next(filter(takes_prompt, models.values()), None)

    def searches(self, items: Sequence[Asked]) -> bool:
        """Whether passages are looked for by embedding."""
        return any(name in _SEARCHING for name, _, _ in self._wanted(items).values())

    def require(self, items: Sequence[Asked]) -> None:
        """Make the guards and what else may turn out to be missing, before anything is asked.

        Raises:
            InputError: a guard, a retriever or the writer cannot be made.
        """
        replier = Replier(self.systems)
        guarded = [item.system for item in items if item.system.guarded]
        for guard, model in dict.fromkeys((one.guard, one.model) for one in guarded):
            replier.guard(guard, model)
        for name in {live.retrieval for live in self.systems.live}:
            if name.startswith(PYTHON):
                base = next(iter(self._bases))
                load_retriever(name, self._bases[base], partial(self.index, base))
            if name == "hyde":
                require_model(self.writer(), where="--retrieval hyde, --writer", why="HyDE")

    def retrieve(
        self,
        folder: Path,
        items: Sequence[Asked],
        passages: Sequence[StoredPassage],
        options: RunOptions,
    ) -> Replier:
        """Find the contexts of all items, and store them and their passages.

        Contexts that the folder has are kept.

        Args:
            folder: of the run.
            items: asked now, or replayed.
            passages: of all knowledge bases and logged contexts.
            options: limits of the calls that retrieving makes, whether contexts that could not
                be found are looked for again, and progress.

        Returns:
            What makes the replies.
        """
        wanted = self._wanted(items)
        retrievers: dict[tuple[str, str], Retriever] = {}

        async def retrieve(name: str) -> Retrieved:
            retrieval, base, case = wanted[name]
            found = await retrievers[retrieval, base](case)
            return found.model_copy(update={"context_id": name})

        def failed(name: str, error: Exception) -> Retrieved:
            return Retrieved(context_id=name, error=RowError.of(error))

        with _CONTEXTS.open(folder) as table:
            if options.retry_failed:
                table.drop(lambda found: found.error is not None)
            # Embedding a knowledge base takes its time, which is no case's own.
            for name, (retrieval, base, _) in wanted.items():
                if name not in table.done and (retrieval, base) not in retrievers:
                    retrievers[retrieval, base] = load_retriever(
                        retrieval,
                        self._bases[base],
                        partial(self.index, base),
                        lm=self.writer() if retrieval == "hyde" else None,
                        top_k=self._top_k,
                    )
            # A retriever that cannot be made is not the case's fault.
            limits = options.limits_or(NO_TIMEOUT)
            limits = replace(limits, stop_on=(InputError, MissingDependencyError))
            calls = Calls[str](str, failed, limits, options.on_progress, stage="retrieving")
            calls.run_sync(wanted, retrieve, table)
        contexts = _CONTEXTS.by_key(folder)
        # What a retriever of the user's own found besides the knowledge base, each once.
        own = {one.passage_id: one for context in contexts.values() for one in context.passages}
        stored = PASSAGES.by_key(folder) if own else {}
        if own.keys() - stored.keys():
            PASSAGES.write(folder, (stored | own | stored).values())
        held: dict[str, dict[str, str]] = defaultdict(dict)
        for passage in (*passages, *own.values()):
            held[passage.knowledge_base][passage.passage_id] = passage.text
        return Replier(self.systems, contexts, dict(held), self._characters)

    def remote(self, replier: Replier) -> Callable[[], Replier]:
        """Return what makes the same replier in another process; models are loaded there."""
        models = {
            # Loaded already, to know whether it takes a prompt; its name is enough there.
            name: None if name.startswith(PYTHON) else model
            for name, model in self._named.items()
        }
        systems = replace(self.systems, models=models)
        return partial(Replier, systems, replier.contexts, replier.passages, replier.characters)

    def _wanted(self, items: Sequence[Asked]) -> dict[str, _Wanted]:
        """Contexts to be found by id: one per case and retrieval, whatever the prompts.

        Where a guard stands in front of a long context, the nearest passages as well: it
        decides on those.
        """
        guarded = self.systems.guarded
        retrievals = list(dict.fromkeys(system.retrieval for system in self.systems.live))
        if guarded and "long_context" in retrievals and "basic_rag" not in retrievals:
            retrievals.append("basic_rag")
        wanted: dict[str, _Wanted] = {}
        for item in items:
            names = retrievals
            if item.logged is not None:
                names = ["basic_rag"] if guarded and item.context.kind == "all_but" else []
            for name in names:
                one = name, item.base, item.case
                wanted.setdefault(context_id(name, item.case.case_id), one)
        return wanted
