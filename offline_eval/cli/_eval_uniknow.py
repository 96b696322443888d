"""`knowgate eval uniknow`: knowledge scenarios, methods against each other."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ...calibration.training.scenarios import ScenarioTrainingSettings
from ...guard.policy import Policy
from ...guard.signals.relevance import load_scorer
from ..suites.uniknow import (
    GUARD_SCORER,
    Parts,
    UniKnowSettings,
    left_out_of,
    read_dataset,
    run_uniknow,
)
from ..testbed import microworld_model_path
from ._call_progress import call_progress
from ._console import out
from ._eval import suites

EMBEDDED = "embedded"
_ANSWER_TOKENS = 24


@suites.command()
def uniknow(
    out_dir: Annotated[Path, typer.Option("--out", help="Run folder; resumed if it exists.")],
    model: Annotated[
        str,
        typer.Option(help="embedded, the folder of a causal language model, or its hub name."),
    ] = EMBEDDED,
    data: Annotated[
        str, typer.Option(help="microworld, or a file of questions (MRQA, SQuAD or JSON lines).")
    ] = "microworld",
    methods: Annotated[
        str, typer.Option(help="all, or names of methods with commas between them.")
    ] = "all",
    knowledge: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps what models know, shared by runs; one in the run folder."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most that many questions.")] = None,
    questions_per_side: Annotated[
        int | None,
        typer.Option(min=1, help="At most that many known and as many unknown ones evaluated."),
    ] = None,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Also train lm_uniknow on other data.")
    ] = False,
    beyond: Annotated[
        bool, typer.Option("--beyond", help="Also contexts of several passages, and untrue ones.")
    ] = False,
    scorer: Annotated[str, typer.Option(help="Of the guards: by name, or a folder.")] = (
        GUARD_SCORER
    ),
    risk: Annotated[
        float,
        typer.Option(help="Share that guards may let through where neither side has the answer."),
    ] = 0.1,
    delta: Annotated[float, typer.Option(help="Chance that this is broken by bad luck.")] = 0.1,
    answer_tokens: Annotated[
        int, typer.Option(min=1, help="The most tokens an answer may have.")
    ] = _ANSWER_TOKENS,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
) -> None:
    """Knowledge scenarios: context against memory, only one of them, or neither.

    First the model is asked without contexts what it knows; then every method answers
    every question in its contexts. Trained methods learn, and guards are calibrated, on
    questions of their own. Killed and started again with the same arguments, the run
    goes on where it stopped. For chat models there is `run_uniknow` in Python.

    Example: `knowgate eval uniknow --model embedded --methods all --out run`
    """
    training, preference_training = _training(model)
    settings = UniKnowSettings(
        methods=tuple(name.strip() for name in methods.split(",") if name.strip()),
        limit=limit,
        questions_per_side=questions_per_side,
        risk=risk,
        delta=delta,
        ablations=ablations,
        beyond=beyond,
        seed=seed,
        training=training,
        preference_training=preference_training,
    )
    # Before a model is loaded, which takes seconds: what is wrong with the data.
    read_dataset(data, limit=limit, seed=seed)
    from ...adapters.huggingface import HuggingFaceLM

    folder = microworld_model_path() if model == EMBEDDED else Path(model)
    lm = HuggingFaceLM(
        folder if model == EMBEDDED or folder.is_dir() else model, max_new_tokens=answer_tokens
    )
    with call_progress("eval uniknow") as on_progress:
        run_uniknow(
            lm,
            data,
            out_dir,
            settings=settings,
            parts=Parts(scorer=load_scorer(scorer)),
            knowledge=knowledge,
            on_progress=on_progress,
        )
    for name, reason in left_out_of(out_dir).items():
        out.print(f"left out: {name} ({reason})", markup=False)
    if (out_dir / "policy.json").exists():
        policy = Policy.load(out_dir / "policy.json")
        promise = "" if policy.guarantee is None else policy.guarantee.statement
        out.print(f"the guards promise: {promise}", markup=False)
    out.print(f"run → {out_dir}\nnext: knowgate report {quote(str(out_dir))}", markup=False)


def _training(model: str) -> tuple[ScenarioTrainingSettings, ScenarioTrainingSettings]:
    """Settings of supervised and of preference training."""
    if model != EMBEDDED:
        return ScenarioTrainingSettings(), ScenarioTrainingSettings()
    return (
        ScenarioTrainingSettings.for_embedded(),
        ScenarioTrainingSettings.for_embedded_preferences(),
    )
