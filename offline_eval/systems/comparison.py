"""The systems under test: every model with every prompt, retrieval and guard."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ...adapters.langchain import ChatModelLM
from ...guard.errors import InputError, MissingDependencyError
from ...guard.files import read_text, write_text
from ...guard.registry import PYTHON
from ..data.embedding import Encoder
from ..data.questions import KnowledgeBase, QuestionRecord
from ..run import CallLimits, RowError
from ..run.calls import Calls, OnProgress
from ..run.replies import ReplySystem, StoredPassage
from ..run.table import TableSpec
from ._retrievers import load_retriever, require_retrieval
from ._synthetic import synthetic_questions
from .guards import OFF, GuardChoice
from .models import ModelUnderTest
from .plan import Asked, Case, Replayed, SystemPrompt, load_system_prompt
from .replying import Replier, context_id
from .retrieval import PassageIndex, Retrieved, Retriever, require_model

_Models = Sequence[str] | Mapping[str, Runnable[Any, Any]]
_Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Systems:
    """Systems under test, and what they are made of.

    Attributes:
        models: by name; not loaded yet unless given as objects.
        prompts: by name.
        guards: by name, `off` included.
        live: the systems that are asked now.
        scorer: of the guards, by name; None for the one that each policy names.
        writer: name of the model that writes for HyDE and makes up questions; None for
            the first of the models.
    """

    models: Mapping[str, ModelUnderTest]
    prompts: Mapping[str, SystemPrompt]
    guards: Mapping[str, GuardChoice]
    live: tuple[ReplySystem, ...]
    scorer: str | None = None
    writer: str | None = None

    @classmethod
    def of(
        cls,
        models: _Models,
        *,
        prompts: Sequence[str] = ("basic",),
        retrievals: Sequence[str] = ("basic_rag",),
        guards: Sequence[_Path] = (OFF,),
        scorer: str | None = None,
        writer: str | None = None,
        top_k: int = 5,
    ) -> Systems:
        """Compare every model with every prompt, retrieval and guard.

        All names are checked, policies and prompts are read; no model is loaded but the user's
        objects.

        Args:
            models: names as `load_chat_model` takes them, or name → runnable.
            prompts: names of bundled prompts, or files.
            retrievals: `direct`, `long_context`, `basic_rag`, `hyde` or
                `python:module:attribute`.
            guards: `off`, `premise`, files of policies, folders of calibrated runs or
                `python:module:attribute`.
            scorer: see `Systems`.
            writer: likewise.
            top_k: passages per context.

        Raises:
            InputError: a name, a file or a combination that cannot be used.
        """
        for name in retrievals:
            require_retrieval(name)
        _reject_doubles("--retrieval", retrievals)
        known = {choice.name: choice for choice in GuardChoice.load(guards)}
        if scorer is not None and not any(choice.policy for choice in known.values()):
            raise InputError(
                "is what a guard decides by, and no guard is under test",
                where="--scorer",
                hint="add --guard, or leave it out",
            )
        tested, loaded = _models_of(models), [load_system_prompt(name) for name in prompts]
        _reject_doubles("--prompt", [prompt.name for prompt in loaded])
        live = tuple(
            _system(model.name, prompt, retrieval, guard, top_k)
            for model in tested
            for retrieval in retrievals
            for prompt in (loaded if model.takes_prompt else [None])
            for guard in known.values()
        )
        by_name = {prompt.name: prompt for prompt in loaded}
        return cls({model.name: model for model in tested}, by_name, known, live, scorer, writer)

    @property
    def guarded(self) -> bool:
        """Whether there is a guard."""
        return any(choice.policy is not None for choice in self.guards.values())

    @property
    def asks_models(self) -> bool:
        """Whether a guard measures how sure a model is."""
        return any(one.policy and one.policy.needs_estimator for one in self.guards.values())

    def loaded(self) -> Systems:
        """The same with all models loaded.

        Raises:
            InputError: there is no such model.
            MissingDependencyError: a package is missing.
        """
        return replace(self, models={name: one.loaded() for name, one in self.models.items()})

    def fingerprints(self) -> dict[str, str]:
        """Of the loaded models, by name."""
        return {name: ChatModelLM(one.asked).fingerprint for name, one in self.models.items()}

    def held_out(self, question: str) -> bool | None:
        """Whether every policy was fitted without the question; None where that is not known."""
        told = [one.held_out(question) for one in self.guards.values() if one.policy is not None]
        if False in told:
            return False
        return None if None in told or not told else True

    def items(self, cases: Mapping[str, Sequence[Case]]) -> list[Asked]:
        """Every case put to every system, case by case.

        So a run that is interrupted has asked all systems about the same cases.

        Args:
            cases: by knowledge base.
        """
        return [
            Asked(system, case, base)
            for base, of_base in cases.items()
            for case in of_base
            for system in self.live
        ]

    def behind_guards(self, logged: ReplySystem) -> list[ReplySystem]:
        """A logged system with each of the guards in front; ids of live systems are not reused."""
        ids = {guarded_id(logged.system_id, name) for name in self.guards}
        taken = not ids.isdisjoint(live.system_id for live in self.live)
        own_id = f"{logged.system_id}·logged" if taken else logged.system_id
        changes: list[dict[str, str]] = [
            {"system_id": guarded_id(own_id, name), "guard": name, "guard_sha256": one.sha256}
            for name, one in self.guards.items()
        ]
        return [logged.model_copy(update=change) for change in changes]


def _models_of(models: _Models) -> list[ModelUnderTest]:
    if isinstance(models, Mapping):
        return [ModelUnderTest(name, runnable) for name, runnable in models.items()]
    _reject_doubles("--model", models)
    # Whether an object of the user's own takes a prompt is known only once it is loaded.
    return [
        ModelUnderTest(name).loaded() if name.startswith(PYTHON) else ModelUnderTest(name)
        for name in models
    ]


def _system(
    model: str, prompt: SystemPrompt | None, retrieval: str, guard: GuardChoice, top_k: int
) -> ReplySystem:
    named = "" if prompt is None else prompt.name
    return ReplySystem(
        system_id=system_id(model, retrieval, named, guard.name),
        model=model,
        prompt=named,
        prompt_sha256="" if prompt is None else prompt.sha256,
        retrieval=retrieval,
        guard=guard.name,
        guard_sha256=guard.sha256,
        top_k=None if retrieval in ("direct", "long_context") else top_k,
    )


def system_id(model: str, retrieval: str, prompt: str, guard: str) -> str:
    """The parts that are not empty, with dots between them.

    Example:
        >>> system_id("embedded", "basic_rag", "basic", "policy")
        'embedded·basic_rag·basic·guard-policy'
    """
    return guarded_id("·".join(part for part in (model, retrieval, prompt) if part), guard)


def guarded_id(system: str, guard: str) -> str:
    """Id of a system with a guard in front; `off` leaves it as it is."""
    return system if guard == OFF else f"{system}·guard-{guard}"


def _reject_doubles(option: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InputError(f"{name!r} is named twice", where=option, hint="name it once")


_SEARCHING = ("basic_rag", "hyde")
_CONTEXTS = TableSpec("contexts", Retrieved, "context_id")
_Wanted = tuple[str, str, Case]  # a context to be found: retrieval, knowledge base and case


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
            return models.get(name, ModelUnderTest(name)).loaded().asked
        return next((model.asked for model in models.values() if model.takes_prompt), None)

    def synthetic_questions(
        self, records: Sequence[QuestionRecord], *, seed: int
    ) -> dict[str, str]:
        """Make up questions on a knowledge base's topics that it does not answer, by id.

        Raises:
            InputError: there is no language model that writes, or no question.
        """
        return synthetic_questions(records, self.encoder, self.writer(), seed=seed)

    def searches(self, items: Sequence[Asked]) -> bool:
        """Whether passages are looked for by embedding."""
        return any(name in _SEARCHING for name, _, _ in self._wanted(items).values())

    def require(self, items: Sequence[Asked]) -> None:
        """Make the guards and what else may turn out to be missing, before anything is asked.

        Raises:
            InputError: a guard, a retriever or the writer cannot be made.
        """
        pairs = {(item.system.guard, item.system.model): None for item in items}
        Replier(self.systems).require_guards(list(pairs))
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
        wanted = self._wanted(items)
        retrievers: dict[tuple[str, str], Retriever] = {}

        async def retrieve(name: str) -> Retrieved:
            retrieval, base, case = wanted[name]
            found = await retrievers[retrieval, base](case)
            return found.model_copy(update={"context_id": name})

        def failed(name: str, error: Exception) -> Retrieved:
            return Retrieved(context_id=name, error=RowError.of(error))

        with _CONTEXTS.open(folder) as table:
            if retry_failed:
                table.drop(lambda found: found.error is not None)
            # Embedding a knowledge base takes its time, which is no case's own.
            for name, (retrieval, base, _) in wanted.items():
                if name not in table.done and (retrieval, base) not in retrievers:
                    retrievers[retrieval, base] = self._retriever(retrieval, base)
            # A retriever that cannot be made is not the case's fault.
            limits = replace(limits, stop_on=(InputError, MissingDependencyError))
            calls = Calls[str](str, failed, limits, on_progress, stage="retrieving")
            calls.run_sync(wanted, retrieve, table)
        contexts = _CONTEXTS.by_key(folder)
        # What a retriever of the user's own found besides the knowledge base, each once.
        own = {one.passage_id: one for context in contexts.values() for one in context.passages}
        _add_passages(folder / "passages.jsonl", list(own.values()))
        held: dict[str, dict[str, str]] = defaultdict(dict)
        for passage in (*passages, *own.values()):
            held[passage.knowledge_base][passage.passage_id] = passage.text
        return Replier(self.systems, contexts, dict(held), self._characters)

    def remote(self, replier: Replier) -> Callable[[], Replier]:
        """Return what makes the same replier in another process; models are loaded there."""
        models = {
            # Loaded already, to know whether it takes a prompt; its name is enough there.
            name: ModelUnderTest(name) if name.startswith(PYTHON) else model
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
            if isinstance(item, Replayed):
                names = ["basic_rag"] if guarded and item.context.kind == "all_but" else []
            for name in names:
                one = name, item.base, item.case
                wanted.setdefault(context_id(name, item.case.case_id), one)
        return wanted

    def _retriever(self, name: str, base: str) -> Retriever:
        return load_retriever(
            name,
            self._bases[base],
            partial(self.index, base),
            lm=self.writer() if name == "hyde" else None,
            top_k=self._top_k,
        )


def _add_passages(path: Path, passages: Sequence[StoredPassage]) -> None:
    text = read_text(path, links=False)
    held = {StoredPassage.model_validate_json(line).passage_id for line in text.split("\n") if line}
    new = [passage for passage in passages if passage.passage_id not in held]
    if new:
        write_text(path, text + "".join(passage.model_dump_json() + "\n" for passage in new))
