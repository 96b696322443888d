"""Methods that train an adapter of the model on the training questions first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....adapters.huggingface import HuggingFaceLM
from ....calibration.training.scenarios import (
    ScenarioTrainingSettings,
    TrainingExample,
    train_preferences,
    train_scenarios,
)
from ....guard.errors import InputError
from ._cases import ContextKind, ScenarioCase
from ._datasets import PromptSet
from ._methods import PromptedMethod
from ._training_data import preference_examples, prompt_for, training_examples

Progress = Callable[[int, int], None]

ABLATED = "lm_uniknow"
_SHARES = (0.0, 0.125, 0.25, 0.375, 0.5)
_LEFT_OUT = (
    (ContextKind.CONFLICTING,),
    (ContextKind.RETRIEVED,),
    (ContextKind.CONFLICTING, ContextKind.RETRIEVED),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A trained method, as it is or with its training changed.

    Attributes:
        method: `retrobust`, `kaft`, `lm_uniknow` or `dpo`.
        abstention_share: of the examples whose reply is `unknown`; None for the usual one.
        without_kinds: contexts left out of the training.
    """

    method: str
    abstention_share: float | None = None
    without_kinds: tuple[ContextKind, ...] = ()

    @property
    def name(self) -> str:
        """How rows call it.

        Example:
            >>> Variant("lm_uniknow", abstention_share=0.25).name
            'lm_uniknow@abstention=0.25'
        """
        if self.abstention_share is not None:
            return f"{self.method}@abstention={self.abstention_share:g}"
        if self.without_kinds:
            left_out = "+".join(kind.value for kind in self.without_kinds)
            return f"{self.method}@without={left_out}"
        return self.method


def ablation_variants() -> tuple[Variant, ...]:
    """The paper's ablations of its own method: shares of abstention, contexts left out."""
    shares = [Variant(ABLATED, abstention_share=share) for share in _SHARES]
    return (*shares, *(Variant(ABLATED, without_kinds=kinds) for kinds in _LEFT_OUT))


@dataclass(frozen=True, slots=True)
class Trainer:
    """What all trained methods of a run share.

    Attributes:
        model_path: folder of the base model.
        lm: the base model as it is asked; adapted ones are asked the same way.
        cases: of training questions.
        prompts: of the data set.
        folder: where adapters are kept, one folder per training.
        settings: of supervised training.
        preference_settings: of preference training.
        seed: of draws, order and first weights.
    """

    model_path: Path
    lm: HuggingFaceLM
    cases: Sequence[ScenarioCase]
    prompts: PromptSet
    folder: Path
    settings: ScenarioTrainingSettings
    preference_settings: ScenarioTrainingSettings
    seed: int = 0

    def method(self, variant: Variant, on_progress: Progress | None = None) -> PromptedMethod:
        """Train the variant, unless its adapter is there, and load it.

        Raises:
            InputError: nothing to train on, or the folder holds another training.
            DeviceError: the device is not there.
            TrainingDivergedError: the loss is no number any more.
        """
        adapter = self._adapter(variant, on_progress)
        adapted = HuggingFaceLM(
            self.model_path,
            device=self.lm.device,
            max_new_tokens=self.lm.max_new_tokens,
            stop=self.lm.stop,
            batch_size=self.lm.batch_size,
            adapter=adapter,
        )
        return PromptedMethod(variant.name, adapted, prompt_for(variant.method, self.prompts))

    def _adapter(self, variant: Variant, on_progress: Progress | None) -> Path:
        """The folder of the variant's adapter, trained."""
        if variant.method == "dpo":
            folder = self.folder / variant.name
            train_preferences(
                self.model_path,
                preference_examples(self.cases, self.prompts, seed=self.seed),
                folder,
                settings=self.preference_settings,
                seed=self.seed,
                on_progress=on_progress,
            )
            return folder
        examples, usual = self._examples(variant), Variant(variant.method)
        # An ablation at the usual share is the usual training: it is done once.
        same = variant != usual and examples == self._examples(usual)
        folder = self.folder / (usual if same else variant).name
        train_scenarios(
            self.model_path,
            examples,
            folder,
            settings=self.settings,
            seed=self.seed,
            on_progress=on_progress,
        )
        return folder

    def _examples(self, variant: Variant) -> list[TrainingExample]:
        return training_examples(
            variant.method,
            self.cases,
            self.prompts,
            abstention_share=variant.abstention_share,
            without_kinds=variant.without_kinds,
            seed=self.seed,
        )


def why_not_trained(lm: object, model_path: Path | None) -> str:
    """Why no adapter of `lm` can be trained; empty where one can."""
    if not isinstance(lm, HuggingFaceLM):
        return f"the weights of a {type(lm).__name__} cannot be trained here"
    if model_path is None:
        return "training needs the folder of the model"
    return ""


def require_folder(model_path: Path | None) -> Path:
    """The folder to train from.

    Raises:
        InputError: there is none.
    """
    if model_path is None:
        raise InputError(
            "is needed for trained methods", where="model_path", hint="name the model's folder"
        )
    return model_path
