"""Methods that first train an adapter of the model on the training questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....adapters.huggingface import HuggingFaceLM, LoadOptions
from ....calibration.training.scenarios import ScenarioTrainingSettings, train_scenarios
from ...run import OnProgress, Progress
from ._cases import ScenarioCase
from ._datasets import PromptSet
from ._methods import PromptedMethod
from ._training_data import (
    TrainedMethod,
    TrainedVariant,
    preference_examples,
    prompt_for,
    training_examples,
)


@dataclass(frozen=True, slots=True)
class Trainer:
    """Trains the methods of a run and loads them.

    Attributes:
        lm: the base model, from a folder; adapted ones are asked in the same way.
        cases: of training questions.
        prompts: of the data set.
        folder: holds the adapters, one folder per training.
        settings: of supervised training.
        preference_settings: of preference training.
        seed: of draws, order and first weights.
    """

    lm: HuggingFaceLM
    cases: Sequence[ScenarioCase]
    prompts: PromptSet
    folder: Path
    settings: ScenarioTrainingSettings
    preference_settings: ScenarioTrainingSettings
    seed: int = 0

    def method(
        self, variant: TrainedVariant, on_progress: OnProgress | None = None
    ) -> PromptedMethod:
        """Train the variant, unless its adapter exists, and load it; raises as `train`."""
        adapted = HuggingFaceLM(
            self.lm.name,
            device=self.lm.device,
            dtype=self.lm.dtype,
            max_new_tokens=self.lm.max_new_tokens,
            stop=self.lm.stop,
            batch_size=self.lm.batch_size,
            adapter=self.train(variant, on_progress),
            loading=LoadOptions(chat_template=self.lm.uses_chat_template),
        )
        return PromptedMethod(variant.name, adapted, prompt_for(variant.method, self.prompts))

    def train(self, variant: TrainedVariant, on_progress: OnProgress | None = None) -> Path:
        """Train the variant, unless its adapter exists, and return the adapter's folder.

        Raises:
            InputError: nothing to train on, or the folder holds another training.
            DeviceError: the device is not there.
            TrainingDivergedError: the loss is not a finite number any more.
        """

        def advance(done: int, total: int) -> None:
            if on_progress is not None:
                on_progress(Progress(f"training {variant.name}", done, total))

        if variant.method is TrainedMethod.DPO:
            folder = self.folder / variant.name
            train_scenarios(
                self.lm.name,
                preference_examples(variant, self.cases, self.prompts, seed=self.seed),
                folder,
                settings=self.preference_settings,
                seed=self.seed,
                on_progress=advance,
            )
            return folder
        examples = training_examples(variant, self.cases, self.prompts, seed=self.seed)
        usual = TrainedVariant(variant.method)
        # An ablation at the usual share is the usual training, and is done once.
        same = variant != usual and examples == training_examples(
            usual, self.cases, self.prompts, seed=self.seed
        )
        folder = self.folder / (usual if same else variant).name
        train_scenarios(
            self.lm.name,
            examples,
            folder,
            settings=self.settings,
            seed=self.seed,
            on_progress=advance,
        )
        return folder


def why_not_trained(lm: object) -> str:
    """Return why no adapter of `lm` can be trained; empty if one can."""
    if not isinstance(lm, HuggingFaceLM):
        return f"the weights of a {type(lm).__name__} cannot be trained here"
    if not Path(lm.name).is_dir():
        return "training needs the folder of the model"
    return ""
