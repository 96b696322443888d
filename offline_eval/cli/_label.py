"""`knowgate label`: people's labels of a run's replies, on a page in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...guard.errors import InputError, require_extra
from ._console import only_figures, out, print_figures, print_table
from ._options import Port, prints_figures
from ._view import show

if TYPE_CHECKING:
    from ...calibration import Interval
    from ..judging.labelling import Agreement
    from ..judging.labelling.session import LabelSession
    from ..run import RepliesRun


@prints_figures
def label(
    run: Annotated[Path, typer.Argument()],
    annotator: str | None = None,
    consensus: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    agreement: bool = False,
    export: Path | None = None,
    sample: Annotated[int | None, typer.Option(min=1)] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    criterion: list[str] | None = None,
    show_names: bool = False,
    port: Port = 0,
    no_browser: bool = False,
) -> None:
    """Label replies in the browser, settle disagreements, print agreement, export.

    Annotators label the same stratified sample in orders of their own, and see neither
    judgements nor each other's labels nor which system replied. Every label is on disk
    before the page shows the next reply; the same command continues a session.

    Example: `knowgate label run --annotator anna --sample 100`

    Args:
        run: A finished run of replies.
        annotator: Label under this name; one page per annotator.
        consensus: Settle under this name what annotators disagree on.
        agreement: Print how far annotators agree.
        export: Write all labels to this file, .csv or .jsonl.
        sample: Replies to label, the same for all annotators; it may grow.  [default: 100, or
            as many as before]
        seed: Of the sample and the orders.  [default: 0]
        criterion: abstention, factuality, or a .toml or .json file; repeatable.  [default:
            what was labelled before, or abstention and factuality]
        show_names: With --consensus: say who said what.
    """
    _require_fitting(
        {"--annotator": annotator, "--consensus": consensus, "--agreement": agreement,
         "--export": export},
        {"--sample": ("--annotator", sample), "--seed": ("--annotator", seed),
         "--criterion": ("--annotator", criterion), "--show-names": ("--consensus", show_names)},
    )  # fmt: skip
    if only_figures() and (annotator or consensus):
        raise InputError(
            "goes with --agreement and --export only", where="--json", hint="leave it out"
        )
    from ..judging.labelling.session import LabelSession
    from ..run import RepliesRun

    found = RepliesRun.read(run)
    if annotator is not None or consensus is not None:
        require_extra("serve")
    if annotator is not None:
        session = LabelSession.annotate(
            found, annotator, size=sample, seed=seed, criteria=criterion or ()
        )
        _serve(session, port, no_browser)
    elif consensus is not None:
        _serve(LabelSession.consensus(found, consensus, show_names=show_names), port, no_browser)
    elif export is not None:
        from ..judging.labelling import Labels

        replies = Labels.read(found.folder).export(found, export)
        print_figures({"replies": replies, "output": export})
        out.print(f"{replies} replies → {export}", markup=False)
    else:
        _print_agreement(found)


def _require_fitting(modes: Mapping[str, object], needs: Mapping[str, tuple[str, object]]) -> None:
    """Reject options that would have no effect, and all but one mode.

    Raises:
        InputError: names them.
    """
    chosen = [name for name, value in modes.items() if value]
    if len(chosen) != 1:
        raise InputError("exactly one is needed", where=", ".join(modes), hint="name one of them")
    for name, (mode, value) in needs.items():
        if value not in (None, False, []) and chosen != [mode]:
            raise InputError(f"goes with {mode} only", where=name, hint="leave it out")


def _serve(session: LabelSession, port: int, no_browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    from ..web import PageServer, label_app

    if len(session) == 0:
        out.print("there is nothing to settle: no reply has labels that differ")
        return
    with PageServer(label_app(session), port) as server:
        show(server, _progress(session), "; every label is stored at once", no_browser=no_browser)
    out.print(_progress(session), markup=False)


def _progress(session: LabelSession) -> str:
    statuses = session.state()["statuses"]
    done = "settled" if session.settles else "labelled"
    skipped = statuses.count("skipped")
    tail = f", {skipped} skipped" if skipped else ""
    return f"{statuses.count('done')} of {len(statuses)} replies {done}{tail}"


def _print_agreement(run: RepliesRun) -> None:
    from ..judging.labelling import Agreement, Labels

    labels = Labels.read(run.folder)
    if not labels.annotators:
        raise InputError(
            "nobody has labelled this run yet",
            where=str(run.folder),
            hint="start with `knowgate label RUN --annotator NAME`",
        )
    found = [Agreement.of(labels, criterion.name, run=run) for criterion in labels.criteria]
    print_figures({one.criterion: _figures(one) for one in found})
    for one in found:
        _print_criterion(one)
    out.print(
        "95 % intervals by resampling questions with all their replies. Cohen's kappa takes the "
        "replies that both labelled, Fleiss' kappa those that all labelled, Krippendorff's alpha "
        "all with two labels or more."
    )


def _figures(found: Agreement) -> dict[str, Any]:
    """Return an agreement for JSON, whose keys are text."""
    pairs = [{"annotators": pair, **value.to_dict()} for pair, value in found.cohen.items()]
    return {**{one.name: getattr(found, one.name) for one in fields(found)}, "cohen": pairs}


def _print_criterion(found: Agreement) -> None:
    rows: list[tuple[str, Interval]] = [
        (f"Cohen's kappa, {a} and {b}", value) for (a, b), value in found.cohen.items()
    ]
    rows += [("Fleiss' kappa", found.fleiss), ("Krippendorff's alpha", found.alpha)]
    if found.ordinal_alpha is not None:
        rows.append(("Krippendorff's alpha, ordinal", found.ordinal_alpha))
    out.print(found.criterion, markup=False)
    print_table(
        ("agreement", "value", "95 % interval", "questions"),
        [(name, *_cells(value), str(value.n)) for name, value in rows],
    )
    out.print(
        f"{found.replies} replies labelled by at least one of {len(found.annotators)}, "
        f"{found.by_two} by two or more, {found.by_all} by all; {found.disagreements} with "
        "different labels"
    )


def _cells(value: Interval) -> tuple[str, str]:
    if value.value is None:
        return "undefined", "–"
    if value.low is None or value.high is None:
        return f"{value.value:.3f}", "–"
    return f"{value.value:.3f}", f"{value.low:.3f} to {value.high:.3f}"
