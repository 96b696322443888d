"""`knowgate tune scenarios`: train a language model on what to do in each scenario."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from ...calibration.training.scenarios import (
    ScenarioTrainingSettings,
    check_training,
    train_scenarios,
)
from ...guard.contracts import LanguageModel
from ..suites.uniknow import (
    ContextKind,
    TrainedMethod,
    TrainedVariant,
    tuning_examples,
)
from ..systems import EMBEDDED, local_model
from ._call_progress import call_progress
from ._console import out, print_figures, prints_figures, progress_bar
from ._tune import tuning

_ANSWER_TOKENS = 24


_METHOD = typer.Option(help="Method of training.")
_OUT = typer.Option("--out", help="Adapter folder to write; new or empty.")
_MODEL = typer.Option(help="embedded, smollm2, gguf:FILE, or the folder of a causal model.")
_DATA = typer.Option(help="microworld, or a file of questions (MRQA, SQuAD or JSON lines).")
_KNOWLEDGE = typer.Option(help="File that keeps what the model knows, so that it is asked once.")
_LIMIT = typer.Option(min=2, help="At most that many questions.")
_PER_SIDE = typer.Option(min=1, help="At most that many known and as many unknown questions.")
_SHARE = typer.Option(help="Share of examples whose reply is unknown; a quarter by default.")
_WITHOUT = typer.Option(help="A kind of context to leave out; repeatable.")
_EPOCHS = typer.Option(min=1, help="Times each example is seen.")
_RATE = typer.Option(help="Peak learning rate.")
_RANK = typer.Option(min=1, help="Of the LoRA adapter.")
_DEVICE = typer.Option(help="auto, cpu, cuda or cuda:N.")
_QUANTISE = typer.Option("--quantise", help="Keep the model in 4 bits (QLoRA); CUDA only.")
_RANDOM = typer.Option(help="Random seed of samples, split, draws and training.")


@tuning.command()
@prints_figures
def scenarios(
    method: Annotated[TrainedMethod, _METHOD],
    out_dir: Annotated[Path, _OUT],
    model: Annotated[str, _MODEL] = EMBEDDED,
    data: Annotated[str, _DATA] = "microworld",
    knowledge: Annotated[Path | None, _KNOWLEDGE] = None,
    limit: Annotated[int | None, _LIMIT] = None,
    per_side: Annotated[int, _PER_SIDE] = 250,
    abstention_share: Annotated[float | None, _SHARE] = None,
    without: Annotated[list[ContextKind] | None, _WITHOUT] = None,
    epochs: Annotated[int | None, _EPOCHS] = None,
    learning_rate: Annotated[float | None, _RATE] = None,
    rank: Annotated[int | None, _RANK] = None,
    device: Annotated[str | None, _DEVICE] = None,
    quantise: Annotated[bool, _QUANTISE] = False,
    seed: Annotated[int, _RANDOM] = 0,
) -> None:
    """Train a LoRA adapter on the knowledge scenarios of a data set's training half.

    First the model is asked without contexts what it knows, then contexts are built and
    it learns from known and unknown questions. The half for evaluation takes no part.
    Use the folder as `HuggingFaceLM(model, adapter=DIR)`.

    Example: `knowgate tune scenarios --method lm_uniknow --out adapter`
    """
    given = {"epochs": epochs, "learning_rate": learning_rate, "rank": rank, "device": device}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings = replace(_settings(model, method), quantise=quantise, **changes)
    variant = TrainedVariant(method, abstention_share, tuple(without or ()))
    check_training(out_dir, settings)  # before anything that takes long
    folder = local_model(model) or Path(model)

    def load() -> LanguageModel:
        from ...adapters.huggingface import HuggingFaceLM

        return HuggingFaceLM(folder, device=settings.device, max_new_tokens=_ANSWER_TOKENS)

    with call_progress("building training cases") as on_progress:
        examples: Any = tuning_examples(
            variant,
            load,
            data,
            knowledge=knowledge,
            limit=limit,
            per_side=per_side,
            seed=seed,
            on_progress=on_progress,
        )
    with progress_bar("training") as advance:
        report = train_scenarios(
            folder, examples, out_dir, settings=settings, seed=seed, on_progress=advance
        )
    print_figures(asdict(report))
    out.print(f"{report}\n→ {report.folder}", markup=False)
    path = "microworld_model_path()" if model == EMBEDDED else repr(str(folder))
    out.print(
        f"Use it as HuggingFaceLM({path}, adapter={quote(str(report.folder))!r})", markup=False
    )


def _settings(model: str, method: TrainedMethod) -> ScenarioTrainingSettings:
    if model != EMBEDDED:
        return ScenarioTrainingSettings()
    if method is TrainedMethod.DPO:
        return ScenarioTrainingSettings.for_embedded_preferences()
    return ScenarioTrainingSettings.for_embedded()
