"""Make training examples of a data set, to train a model outside of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ....calibration.training.scenarios import PreferenceExample, TrainingExample
from ....guard.contracts import LanguageModel
from ...run import OnProgress
from ._plan import training_cases
from ._questions import read_dataset
from ._training_data import TrainedMethod, TrainedVariant, preference_examples, training_examples


def tuning_examples(
    variant: TrainedVariant,
    load: Callable[[], LanguageModel],
    data: str,
    *,
    knowledge: Path | None = None,
    limit: int | None = None,
    per_side: int = 250,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[TrainingExample] | list[PreferenceExample]:
    """Make examples of the training half of a data set; preferences for `dpo`.

    Args:
        variant: what is trained.
        load: loads the model that is asked what it knows; called once the data are read.
        data: `microworld`, or a file of questions.
        knowledge: file that stores what models know; None to store nothing.
        limit: at most that many questions.
        per_side: at most that many known and as many unknown questions.
        seed: of samples, split, contexts and order.
        on_progress: called with the state of each stage.

    Raises:
        InputError: the data cannot be used, or the model knows all questions, or none.
    """
    dataset = read_dataset(data, limit=limit, seed=seed)
    cases = training_cases(
        load(),
        dataset,
        knowledge=knowledge,
        per_side=per_side,
        seed=seed,
        on_progress=on_progress,
    )
    make = preference_examples if variant.method is TrainedMethod.DPO else training_examples
    return make(variant, cases, dataset.prompts, per_side=per_side, seed=seed)
