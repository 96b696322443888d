"""`knowgate tune scenarios`: teach a language model what to do in each scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from ...calibration.training.scenarios import (
    ScenarioTrainingReport,
    ScenarioTrainingSettings,
    check_training,
    train_preferences,
    train_scenarios,
)
from ...guard.errors import InputError
from ..suites.uniknow import (
    ContextKind,
    Dataset,
    Knowledge,
    KnowledgeStore,
    ScenarioCase,
    build_cases,
    build_contexts,
    check_abstention_share,
    check_without_kinds,
    estimate_knowledge,
    preference_examples,
    read_dataset,
    split_questions,
    training_examples,
)
from ..testbed import microworld_model_path
from ._console import out, progress_bar
from ._tune import tuning

EMBEDDED = "embedded"
_ANSWER_TOKENS = 24


class TrainedMethod(StrEnum):
    """What is taught, see `offline_eval/uniknow`."""

    LM_UNIKNOW = "lm_uniknow"
    KAFT = "kaft"
    RETROBUST = "retrobust"
    DPO = "dpo"


@tuning.command()
def scenarios(
    method: Annotated[TrainedMethod, typer.Option(help="What is taught.")],
    out_dir: Annotated[Path, typer.Option("--out", help="Adapter folder to write; new or empty.")],
    model: Annotated[
        str, typer.Option(help="embedded, or the folder of a causal language model.")
    ] = EMBEDDED,
    data: Annotated[
        str, typer.Option(help="microworld, or a file of questions (MRQA, SQuAD or JSON lines).")
    ] = "microworld",
    knowledge: Annotated[
        Path | None,
        typer.Option(help="File that keeps what the model knows, so that it is asked once."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=2, help="At most that many questions.")] = None,
    per_side: Annotated[
        int, typer.Option(min=1, help="At most that many known and as many unknown questions.")
    ] = 250,
    abstention_share: Annotated[
        float | None,
        typer.Option(help="Share of examples whose reply is unknown; a quarter by default."),
    ] = None,
    without: Annotated[
        list[ContextKind] | None, typer.Option(help="A kind of context to leave out; repeatable.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Times each example is seen.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="Of the LoRA adapter.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    quantise: Annotated[
        bool, typer.Option("--quantise", help="Keep the model in 4 bits (QLoRA); CUDA only.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of samples, split, draws and training.")] = 0,
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
    check_abstention_share(method.value, abstention_share)
    check_without_kinds(without or ())
    check_training(out_dir, settings)  # before anything that takes long
    folder = microworld_model_path() if model == EMBEDDED else Path(model)
    dataset = read_dataset(data, limit=limit, seed=seed)
    cases = _training_cases(folder, dataset, knowledge, settings.device, per_side, seed)
    chosen = _Chosen(per_side, abstention_share, tuple(without or ()), seed)
    with progress_bar("training") as advance:
        report = _trained(folder, method, cases, dataset, chosen, out_dir, settings, advance)
    _tell(report, model)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which examples are made of the cases; see `training_examples`."""

    per_side: int
    abstention_share: float | None
    without_kinds: tuple[ContextKind, ...]
    seed: int


def _trained(
    folder: Path,
    method: TrainedMethod,
    cases: list[ScenarioCase],
    dataset: Dataset,
    chosen: _Chosen,
    out_dir: Path,
    settings: ScenarioTrainingSettings,
    advance: Callable[[int, int], None],
) -> ScenarioTrainingReport:
    if method is TrainedMethod.DPO:
        pairs = preference_examples(
            cases,
            dataset.prompts,
            per_side=chosen.per_side,
            abstention_share=chosen.abstention_share,
            without_kinds=chosen.without_kinds,
            seed=chosen.seed,
        )
        return train_preferences(
            folder, pairs, out_dir, settings=settings, seed=chosen.seed, on_progress=advance
        )
    examples = training_examples(
        method.value,
        cases,
        dataset.prompts,
        per_side=chosen.per_side,
        abstention_share=chosen.abstention_share,
        without_kinds=chosen.without_kinds,
        seed=chosen.seed,
    )
    return train_scenarios(
        folder, examples, out_dir, settings=settings, seed=chosen.seed, on_progress=advance
    )


def _settings(model: str, method: TrainedMethod) -> ScenarioTrainingSettings:
    if model != EMBEDDED:
        return ScenarioTrainingSettings()
    if method is TrainedMethod.DPO:
        return ScenarioTrainingSettings.for_embedded_preferences()
    return ScenarioTrainingSettings.for_embedded()


def _training_cases(
    model: Path, dataset: Dataset, store: Path | None, device: str, per_side: int, seed: int
) -> list[ScenarioCase]:
    """The cases of the training half.

    Raises:
        InputError: the model knows all questions, or none.
    """
    from ...adapters.huggingface import HuggingFaceLM

    lm = HuggingFaceLM(model, device=device, max_new_tokens=_ANSWER_TOKENS)
    with progress_bar("asking what it knows") as advance:
        estimates = estimate_knowledge(
            lm,
            dataset.questions,
            dataset.prompts,
            seed=seed,
            store=None if store is None else KnowledgeStore(store),
            on_progress=advance,
        )
    known = {name: estimate.knowledge for name, estimate in estimates.items()}
    chosen = split_questions(dataset, known, training_per_side=per_side, seed=seed).training
    _check_sides(known, {question.id for question in chosen}, dataset.name)
    training = replace(dataset, questions=chosen)
    with progress_bar("building contexts") as advance:
        contexts = build_contexts(training, seed=seed, on_progress=advance)
    return build_cases(training, contexts, known)


def _check_sides(known: Mapping[str, Knowledge], chosen: set[str], where: str) -> None:
    counts = Counter(known.values())
    sides = {known[name] for name in chosen}
    if sides >= {Knowledge.KNOWN, Knowledge.UNKNOWN}:
        return
    raise InputError(
        f"of {len(known)} questions the model knows {counts[Knowledge.KNOWN]} and does not know "
        f"{counts[Knowledge.UNKNOWN]}: training needs some of both",
        where=where,
        hint="give more questions, or other ones",
    )


def _tell(report: ScenarioTrainingReport, model: str) -> None:
    first, last = report.losses[0], report.losses[-1]
    left_out = f", {report.left_out} too long" if report.left_out else ""
    loss = f"loss {first:.3f}"
    if len(report.losses) > 1:
        loss += f" in the first epoch, {last:.3f} in the last"
    out.print(
        f"{report.examples} examples{left_out}, {report.steps} steps in {report.seconds:.0f} s on "
        f"{report.device}: {loss}",
        markup=False,
    )
    path = "microworld_model_path()" if model == EMBEDDED else repr(model)
    out.print(f"→ {report.folder}", markup=False)
    out.print(
        f"Use it as HuggingFaceLM({path}, adapter={quote(str(report.folder))!r})", markup=False
    )
