"""Which methods a model allows, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....guard.contracts import LanguageModel
from ....guard.errors import InputError
from ....guard.policy import Policy
from ._artefacts import UniKnowSettings
from ._cases import Knowledge, ScenarioCase
from ._datasets import PromptSet
from ._guard_method import GuardMethod, SignalMeter
from ._methods import (
    CONTRASTIVE,
    GUARDED,
    OPTIONAL_METHODS,
    PROMPTED,
    TRAINED,
    ContrastiveMethod,
    Method,
    RememberingMethod,
    prompted_method,
    why_not_contrastive,
)
from ._trained_methods import Trainer, Variant, ablation_variants, why_not_trained

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The methods of a run.

    Attributes:
        names: in the order of the rows, ablations last.
        left_out: asked for by `all`, and not possible; with the reason.
    """

    names: tuple[str, ...]
    left_out: dict[str, str]

    @property
    def guarded(self) -> bool:
        """Whether signals have to be measured."""
        return any(name in GUARDED for name in self.names)

    @property
    def trained(self) -> bool:
        """Whether anything has to be trained."""
        return any(map(is_trained, self.names))


def choose_methods(settings: UniKnowSettings, lm: LanguageModel, model_path: Path | None) -> Chosen:
    """The methods asked for that the model allows.

    Raises:
        InputError: a method asked for by name, or the ablations, cannot be run.
    """
    names, left_out = [], {}
    variants = [variant.name for variant in ablation_variants()] if settings.ablations else []
    for name in (*settings.method_names, *variants):
        reason = _why_not(name, lm, model_path)
        if not reason:
            names.append(name)
        elif settings.asks_for_all:
            left_out[name] = reason
        else:
            raise InputError(reason, where=name, hint="leave the method out, or use a local model")
    return Chosen(tuple(names), left_out)


def with_training(chosen: Chosen, cases: Sequence[ScenarioCase], *, for_all: bool) -> Chosen:
    """What can still be run, now that it is known what there is to train on.

    Args:
        chosen: the methods that the model allows.
        cases: of training questions.
        for_all: whether methods that cannot be trained are left out, not refused.

    Raises:
        InputError: the model knows all training questions, or none.
    """
    sides = {case.knowledge for case in cases}
    if sides >= {Knowledge.KNOWN, Knowledge.UNKNOWN}:
        return chosen
    reason = "training needs questions that the model knows and ones that it does not"
    untrained = [name for name in chosen.names if is_trained(name)]
    if untrained and not for_all:
        raise InputError(
            reason,
            where=untrained[0],
            hint="give more questions, or leave the trained methods out by --methods",
        )
    return Chosen(
        tuple(name for name in chosen.names if name not in untrained),
        {**chosen.left_out, **dict.fromkeys(untrained, reason)},
    )


def is_trained(name: str) -> bool:
    """Whether a method, or a variant of one, trains an adapter."""
    return name.partition("@")[0] in (*TRAINED, *OPTIONAL_METHODS)


def _why_not(name: str, lm: LanguageModel, model_path: Path | None) -> str:
    if name in CONTRASTIVE or name == "guard_coiecd":
        return why_not_contrastive(lm)
    if is_trained(name):
        return why_not_trained(lm, model_path)
    return ""


@dataclass(slots=True)
class Methods:
    """Makes the methods of a run, each when its turn comes.

    Attributes:
        lm: what is asked.
        prompts: of the data set.
        trainer: for trained methods, None where there are none.
        meter: what a guard's signals were measured with, None where there are no guards.
        policy: of the guards, likewise.
    """

    lm: LanguageModel
    prompts: PromptSet
    trainer: Trainer | None = None
    meter: SignalMeter | None = None
    policy: Policy | None = None
    _asked: dict[str, RememberingMethod] = field(default_factory=dict)

    def remembering(self, name: str) -> RememberingMethod:
        """A method without training or guard, whose replies a guard can use again."""
        if name not in self._asked:
            made: Method
            if name in PROMPTED:
                made = prompted_method(name, self.lm, self.prompts)
            else:
                made = ContrastiveMethod(name, self.lm, self.prompts)
            self._asked[name] = RememberingMethod(made)
        return self._asked[name]

    def make(self, name: str, on_progress: Progress | None = None) -> Method:
        """The method of that name, trained where it has to be.

        Raises:
            InputError: it cannot be trained, or the guard's parts do not belong together.
        """
        if name in GUARDED:
            assert self.meter is not None
            assert self.policy is not None
            return GuardMethod(
                name,
                self.remembering(name.removeprefix("guard_")),
                self.policy,
                scorer=self.meter.scorer,
                estimator=self.meter.estimator,
            )
        if name in (*PROMPTED, *CONTRASTIVE):
            return self.remembering(name)
        assert self.trainer is not None
        variants = {variant.name: variant for variant in ablation_variants()}
        return self.trainer.method(variants.get(name) or Variant(name), on_progress)
