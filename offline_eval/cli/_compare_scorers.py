"""`knowgate compare-scorers`: which scorer to take, measured on one's own knowledge base."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...calibration import Interval
from ...guard.errors import InputError
from ..suites import RunOptions
from ..suites.ookb import MEASURE
from ._app import app
from ._call_progress import call_stages
from ._console import aligned, err, out, print_figures, prints_figures
from ._suite_command import setting_options, settings_of, shared, with_options

if TYPE_CHECKING:
    from ..suites.ookb import ScorerComparison

# Each scorer has its own; an echo is no case of a comparison.
_NOT_TAKEN = frozenset({"scorer", "aggregator", "echo"})
_DOC = """Compare scorers on your own questions, and say which one to take.

Each question is asked with its passage in the knowledge base, and with that passage left out;
all scorers judge the same retrieved passages. Printed are AUROC, false abstention where at most
`--risk` of the left-out questions pass, milliseconds and calls of a language model per
question, the differences with intervals that hold for all pairs together, and the cheapest
scorer that no other one is shown to be better than. Often the answer is that more questions
are needed.

What was measured is kept: start the command again to continue, or with one more `--scorer`.
Calibrate the chosen scorer on other questions, or name the runs of all compared scorers to
`knowgate calibrate` (`--run`, `--or-run`), which divides δ among them.

Example: `knowgate compare-scorers --questions kb.jsonl --scorer sufficiency --scorer lexical`
"""


_OPTIONS = {
    name: option
    for name, option in setting_options(MEASURE.settings).items()
    if name not in _NOT_TAKEN
}


def _compare(**given: Any) -> None:
    from ..suites.ookb import compare_scorers

    risk, folder = given["risk"], given["out_dir"]
    if not 0 < risk < 1:
        raise InputError(
            f"must be between 0 and 1, not {risk:g}", where="--risk", hint="name one such as 0.1"
        )
    settings = settings_of(MEASURE.settings, {name: given[name] for name in _OPTIONS})
    with call_stages() as advance:
        options = RunOptions(retry_failed=given["retry_failed"], on_progress=advance)
        found = compare_scorers(settings, given["scorer"], folder, risk=risk, options=options)
    for line in _lines(found):
        out.print(line, markup=False)
    print_figures(found.to_dict())
    out.print(f"report → {folder / 'report.html'}", markup=False)
    if found.failed:
        err.print(
            f"{found.failed} cases failed: see `error` in the rows.jsonl of each scorer in "
            f"{folder}; add --retry-failed to the same command to ask again",
            markup=False,
        )
        raise typer.Exit(1)


def _lines(found: ScorerComparison) -> list[str]:
    """The table of scorers, their differences, and which one to take."""
    columns = (
        "scorer", "AUROC", f"false abstention at {found.risk:.3g} leak", "failed", "ms/question",
        "calls/question",
    )  # fmt: skip
    scorers = [
        (
            one.name,
            _number(one.auroc),
            _share(one.false_abstention),
            f"{one.failed} of {one.cases}" if one.failed else "0",
            "–" if one.milliseconds is None else f"{one.milliseconds:.1f}",
            f"{one.calls:.2g}",
        )
        for one in found.scorers
    ]
    missed = f", {found.missed} retrieval misses left out" if found.missed else ""
    lines = [f"{found.questions} questions on {found.passages} passages{missed}", ""]
    lines += aligned(columns, scorers)
    if found.differences:
        pairs = [
            (
                f"{one.first} − {one.second}",
                _number(one.auroc, "+"),
                _share(one.false_abstention, "+"),
            )
            for one in found.differences
        ]
        lines += ["", *aligned(("difference", "AUROC", "false abstention"), pairs)]
    return [*lines, "", found.choice.reason]


def _number(value: Interval, sign: str = "") -> str:
    if value.value is None or value.low is None or value.high is None:
        return "–"
    return f"{value.value:{sign}.3f} [{value.low:{sign}.3f}, {value.high:{sign}.3f}]"


def _share(value: Interval, sign: str = "") -> str:
    if value.value is None or value.low is None or value.high is None:
        return "–"
    return f"{value.value:{sign}.1%} [{value.low:{sign}.1%}, {value.high:{sign}.1%}]"


app.command("compare-scorers")(
    prints_figures(
        with_options(
            _compare,
            [
                *_OPTIONS.values(),
                shared(
                    "scorer",
                    list[str],
                    "--scorer",
                    "A name, a folder, hf:MODEL or judge:MODEL. Repeat it for each.",
                    inspect.Parameter.empty,
                ),
                shared(
                    "out_dir",
                    Path,
                    "--out",
                    "Folder for a run per scorer and the report; continued if it exists.",
                    Path("scorer-comparison"),
                ),
                shared(
                    "risk", float, "--risk", "Share of left-out questions that may pass (α).", 0.05
                ),
                shared(
                    "retry_failed",
                    bool,
                    "--retry-failed",
                    "Ask again for cases with an error.",
                    False,
                ),
            ],
            _DOC,
        )
    )
)
