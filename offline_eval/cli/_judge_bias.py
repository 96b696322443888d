"""`knowgate eval judge-bias`: does a judge judge by the context, or by what it believes?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table

from ...adapters.huggingface import HuggingFaceLM
from ...calibration import Interval
from ...guard.errors import InputError
from ..suites.conflict import (
    MICROWORLD,
    BeliefSource,
    PromptSet,
    microworld_items,
    read_conflict_set,
)
from ..suites.judge_bias import (
    BiasJudge,
    JudgeBias,
    JudgeBiasPlan,
    judge_bias_warning,
    measure_judge_bias,
)
from ..systems import load_language_model
from ._console import out, progress_bar
from ._eval import suites

_PREFIX = "llm:"
_EXPLAINED_TOKENS = 160


@suites.command("judge-bias")
def judge_bias(
    judge: Annotated[
        str,
        typer.Option(help="A model as `knowgate judge` names it: llm:MODEL, or MODEL alone."),
    ],
    out_file: Annotated[Path, typer.Option("--out", help="The artefact, judge_bias.json.")],
    data: Annotated[
        str, typer.Option(help="microworld, or a file or folder as for `knowgate eval conflict`.")
    ] = MICROWORLD,
    beliefs: Annotated[
        str, typer.Option(help="asked of the judge, closed_book, or given with the data.")
    ] = "asked",
    limit: Annotated[int | None, typer.Option(min=1, help="At most that many questions.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="Folder with prompts of your own; see the guide.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls of a chat model at once.")] = 8,
) -> None:
    """How far a judge follows its own beliefs where the context contradicts them.

    Verdicts are kept beside the artefact: killed and started again with the same arguments, it
    goes on where it stopped.

    Example: `knowgate eval judge-bias --judge llm:openai:gpt-4.1 --out judge_bias.json`
    """
    sources = {name: name for name in get_args(BeliefSource)}
    if beliefs not in sources:
        raise InputError(
            f"there is no {beliefs[:40]!r}", where="--beliefs", hint=", ".join(sources)
        )
    source: BeliefSource = sources[beliefs]
    items = microworld_items() if data == MICROWORLD else read_conflict_set(data).items
    name = judge.removeprefix(_PREFIX)
    lm = load_language_model(name, max_concurrency=concurrency)
    if isinstance(lm, HuggingFaceLM) and lm.uses_chat_template:
        # An explanation comes before the verdict.
        lm = HuggingFaceLM(name, max_new_tokens=_EXPLAINED_TOKENS, stop=())
    own = None if prompts is None else PromptSet(prompts, package=_package())
    plan = JudgeBiasPlan(
        items[:limit], source, data if data == MICROWORLD else Path(data).name, PromptSet(prompts)
    )
    with progress_bar("judging cases") as advance:
        bias = measure_judge_bias(
            BiasJudge(f"{_PREFIX}{name}", lm, own), plan, out_file, on_progress=advance
        )
    _show(bias, out_file)


def _package() -> str:
    from ..suites.judge_bias import prompts

    return prompts.__name__


def _show(bias: JudgeBias, path: Path) -> None:
    table = Table("", "value", "95 % interval", box=None, pad_edge=False)
    for name, interval in (
        ("kappa against labels", bias.kappa),
        ("follows its belief", bias.follows_belief),
        ("rejects right, disbelieved", bias.rejects_disbelieved),
        ("accepts wrong, believed", bias.accepts_believed),
        ("errors without a conflict", bias.control_errors),
        ("effect of the belief", bias.belief_effect),
    ):
        table.add_row(name, *_words(interval))
    out.print(f"{bias.questions} questions, {bias.cases} verdicts, {bias.no_verdict} without")
    out.print(table)
    warning = judge_bias_warning(bias)
    if warning is not None:
        out.print(f"warning: {warning}", markup=False)
    out.print(f"judge bias → {path}", markup=False)


def _words(interval: Interval) -> tuple[str, str]:
    if interval.value is None:
        return "–", ""
    if interval.low is None or interval.high is None:
        return f"{interval.value:.3f}", ""
    return f"{interval.value:.3f}", f"{interval.low:.3f} to {interval.high:.3f}"
