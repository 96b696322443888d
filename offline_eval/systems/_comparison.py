"""The systems under test: every model with every prompt, retrieval and guard."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables import Runnable

from ...adapters.langchain import ChatModelLM
from ...guard.errors import InputError
from ..run import ReplySystem
from ._factory import PYTHON
from ._guards import OFF, GuardChoice, held_out_of
from ._models import ModelUnderTest
from ._plan import Asked, Case, SystemUnderTest
from ._prompts import SystemPrompt, load_system_prompts
from ._retrievers import RETRIEVALS


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: every model with every prompt, retrieval and guard.

    Attributes:
        models: names as `load_chat_model` takes them, or name → runnable.
        prompts: names of bundled prompts, or files.
        retrievals: `direct`, `long_context`, `basic_rag`, `hyde` or `python:module:attribute`.
        guards: `off`, `premise`, files of policies, folders of calibrated runs or
            `python:module:attribute`.
        replay: logs of replies; the guards are put in front of these, too.
        scorer: of the guards, by name; None for the one that each policy names.
        writer: name of the model that writes for HyDE and makes up questions; None for
            the first of the models.
    """

    models: Sequence[str] | Mapping[str, Runnable[Any, Any]] = ()
    prompts: Sequence[str] = ("basic",)
    retrievals: Sequence[str] = ("basic_rag",)
    guards: Sequence[str | os.PathLike[str]] = (OFF,)
    replay: Sequence[str | os.PathLike[str]] = ()
    scorer: str | None = None
    writer: str | None = None

    def systems(self, top_k: int) -> Systems:
        """Check all names and read policies and prompts; load no model but the user's objects.

        Args:
            top_k: passages per context.

        Raises:
            InputError: a name, a file or a combination that cannot be used.
        """
        for name in self.retrievals:
            if name not in RETRIEVALS and not name.startswith(PYTHON):
                raise InputError(
                    f"there is no retrieval {name!r}",
                    where="--retrieval",
                    hint=f"one of: {', '.join(RETRIEVALS)}; or python:module:attribute",
                )
        _reject_doubles("--retrieval", self.retrievals)
        guards = GuardChoice.load(self.guards)
        if self.scorer is not None and not any(choice.policy for choice in guards):
            raise InputError(
                "is what a guard decides by, and no guard is under test",
                where="--scorer",
                hint="add --guard, or leave it out",
            )
        models = self._models()
        prompts = load_system_prompts(self.prompts)
        return Systems(
            models={model.name: model for model in models},
            guards={choice.name: choice for choice in guards},
            live=tuple(
                _system(model, prompt, retrieval, guard, top_k)
                for model in models
                for retrieval in self.retrievals
                for prompt in (prompts if model.takes_prompt else (None,))
                for guard in guards
            ),
            scorer=self.scorer,
            writer=self.writer,
        )

    def _models(self) -> list[ModelUnderTest]:
        if isinstance(self.models, Mapping):
            return [ModelUnderTest(name, runnable) for name, runnable in self.models.items()]
        _reject_doubles("--model", self.models)
        # Whether an object of the user's own takes a prompt is known only once it is loaded.
        return [
            ModelUnderTest(name).loaded() if name.startswith(PYTHON) else ModelUnderTest(name)
            for name in self.models
        ]


@dataclass(frozen=True, slots=True)
class Systems:
    """Systems under test, and what they are made of.

    Attributes:
        models: by name; not loaded yet unless given as objects.
        guards: by name, `off` included.
        live: the systems that are asked now.
        scorer: of the guards, by name; None for the one that each policy names.
        writer: see `Comparison`.
    """

    models: Mapping[str, ModelUnderTest]
    guards: Mapping[str, GuardChoice]
    live: tuple[SystemUnderTest, ...]
    scorer: str | None = None
    writer: str | None = None

    @property
    def guarded(self) -> bool:
        """Whether there is a guard."""
        return any(choice.policy is not None for choice in self.guards.values())

    @property
    def asks_models(self) -> bool:
        """Whether a guard measures how sure a model is."""
        policies = [choice.policy for choice in self.guards.values()]
        return any(policy is not None and policy.needs_estimator for policy in policies)

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
        """Whether every policy was fitted without the question; None where unknown."""
        return held_out_of(list(self.guards.values()), question)

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

    def behind_guards(self, logged: ReplySystem) -> list[SystemUnderTest]:
        """A logged system with each of the guards in front; ids of live systems are not reused."""
        ids = {guarded_id(logged.system_id, name) for name in self.guards}
        taken = not ids.isdisjoint(live.system_id for live in self.live)
        own_id = f"{logged.system_id}·logged" if taken else logged.system_id
        return [
            SystemUnderTest(
                logged.model_copy(
                    update={
                        "system_id": guarded_id(own_id, guard.name),
                        "guard": guard.name,
                        "guard_sha256": guard.sha256,
                    }
                )
            )
            for guard in self.guards.values()
        ]


def _system(
    model: ModelUnderTest,
    prompt: SystemPrompt | None,
    retrieval: str,
    guard: GuardChoice,
    top_k: int,
) -> SystemUnderTest:
    named = "" if prompt is None else prompt.name
    record = ReplySystem(
        system_id=system_id(model.name, retrieval, named, guard.name),
        model=model.name,
        prompt=named,
        prompt_sha256="" if prompt is None else prompt.sha256,
        retrieval=retrieval,
        guard=guard.name,
        guard_sha256=guard.sha256,
        top_k=None if retrieval in ("direct", "long_context") else top_k,
    )
    return SystemUnderTest(record, prompt)


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
