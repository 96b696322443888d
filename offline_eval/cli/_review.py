"""`knowgate review`: a person says which left-out questions are answered after all."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from ...guard.errors import InputError, require_extra
from ._console import only_figures, out, print_figures, progress_bar
from ._options import Port, prints_figures
from ._view import show

if TYPE_CHECKING:
    from ..judging.labelling.review_session import ReviewSession

_KEYS = "a answers it after all · n does not · u unsure · s skip · q quit"
_VERDICTS = {"a": "answered", "n": "not_answered", "u": "unsure"}


@prints_figures
def review(
    run: Annotated[Path, typer.Argument()],
    again: bool = False,
    browser: bool = False,
    export: Path | None = None,
    import_path: Path | None = None,
    port: Port = 0,
    no_browser: bool = False,
) -> None:
    """Review leaks: is a question answered after all, although its source was left out?

    Shown are left-out cases, first those that another passage probably answers, then those of the
    highest relevance. A case that is answered is no leak; one that nobody reviewed, or was sure
    of, stays one. Every verdict is on disk before the next case is shown, and the same command
    goes on where it was left. With --json it asks nothing and counts the verdicts.

    Example: `knowgate review run`

    Args:
        run: A run of `knowgate measure`.
        again: Ask about cases with a verdict, too.
        browser: Ask on a page in the browser.
        export: Write all left-out cases with their verdicts, .csv or .jsonl.
        import_path: Store the verdicts of such a file, all or none.
    """
    _require_fitting(again=again, browser=browser, export=export, import_from=import_path)
    if browser:
        require_extra("serve")
        _serve(_opened(run), port, no_browser)
    elif export is not None:
        _export(_opened(run), export)
        return
    elif import_path is not None:
        _import(run, import_path)
    elif not only_figures():
        _ask(_opened(run), again=again)
    _finish(run)


def _require_fitting(
    *, again: bool, browser: bool, export: Path | None, import_from: Path | None
) -> None:
    """Reject options that do not go together.

    Raises:
        InputError: names them.
    """
    modes = {
        "--again": again,
        "--browser": browser,
        "--export": export is not None,
        "--import": import_from is not None,
    }
    given = [name for name, is_given in modes.items() if is_given]
    if len(given) > 1:
        raise InputError("are mutually exclusive", where=", ".join(given), hint="name one of them")
    if only_figures() and (again or browser):
        raise InputError(
            f"does not go with {given[0]}", where="--json", hint="leave one of both out"
        )


def _opened(run: Path) -> ReviewSession:
    from ..judging.labelling.review_session import ReviewSession

    with progress_bar("Looking for likely answers") as advance:
        return ReviewSession.open(run, on_scored=advance)


def _ask(session: ReviewSession, *, again: bool) -> None:
    """Ask about one case after the other until the end, `q`, Ctrl-C or the end of the input."""
    asked = list(range(len(session))) if again else session.open_positions
    try:
        for place, position in enumerate(asked, start=1):
            _show(session, position, f"{place} of {len(asked)}")
            if not _decide(session, position):
                return
    except (EOFError, KeyboardInterrupt):
        out.print()


def _show(session: ReviewSession, position: int, place: str) -> None:
    from ..judging.labelling.session import plain

    case = session.cases[position]
    mark = " — probably answered after all, by passage 1" if case.probable else ""
    out.print(f"\n── case {place}{mark}", style="bold", markup=False)
    out.print(plain(f"{case.case_id} · {case.facts}"), style="dim", markup=False)
    out.print(plain(f"question: {case.question}"), markup=False)
    out.print(plain(f"expected: {case.answer or '(no answer is stored)'}"), markup=False)
    if not case.passages:
        out.print("nothing was retrieved")
    for number, one in enumerate(case.passages, start=1):
        likely = " (probably answers)" if one.probable and number == 1 else ""
        out.print(f"\npassage {number} · {plain(one.heading)}{likely}", style="bold", markup=False)
        out.print(plain(one.text or "(text not stored in the run)"), markup=False)


def _decide(session: ReviewSession, position: int) -> bool:
    """Ask until an answer is understood; False to stop."""
    from ..run.measured_run import Review

    passages = session.cases[position].passages
    while True:
        out.print(f"\n{_KEYS}", markup=False)
        key, _, rest = input("> ").strip().lower().partition(" ")
        if key == "q":
            return False
        if key == "s":
            return True
        number = rest.strip()
        named = number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(passages)
        if key in _VERDICTS and (not number or (key == "a" and named)):
            passage = passages[int(number) - 1].passage_id if named else None
            session.decide(position, Review.Verdict(_VERDICTS[key]), passage=passage)
            return True
        out.print("answer with one of these letters; “a 2” says that passage 2 answers it")


def _serve(session: ReviewSession, port: int, no_browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    from ..web import PageServer, label_app

    with PageServer(label_app(session), port) as server:
        done = len(session) - len(session.open_positions)
        what = f"{done} of {len(session)} left-out questions reviewed"
        show(server, what, "; every verdict is stored at once", no_browser=no_browser)


def _export(session: ReviewSession, path: Path) -> None:
    verdicts = session.export(path)
    print_figures({"left_out": len(session), "reviewed": verdicts, "output": path})
    out.print(f"{len(session)} left-out cases, {verdicts} with a verdict → {path}", markup=False)


def _import(folder: Path, path: Path) -> None:
    from ..judging.labelling.review_session import ReviewSession

    found = ReviewSession.store_file(folder, path)
    out.print(
        f"{found.stored} new verdict{'' if found.stored == 1 else 's'} stored; {found.unchanged} "
        f"stood there already; {found.without_verdict} rows without a verdict"
    )


def _finish(folder: Path) -> None:
    """Print what there is now, and what to do next."""
    from ..run.measured_run import MeasuredRun

    run = MeasuredRun.read(folder, unfinished=True)
    counts = run.review_counts()
    print_figures(counts)
    unsure = f", {counts['unsure']} unsure" if counts["unsure"] else ""
    out.print(
        f"{counts['reviewed']} of {counts['left_out']} left-out questions reviewed: "
        f"{counts['answered']} answered after all, {counts['not_answered']} not{unsure}"
    )
    if counts["answered"]:
        calibrated = run.calibration
        risk = 0.1 if calibrated is None or calibrated.risk is None else calibrated.risk
        out.print(
            f"next: knowgate calibrate --run {quote(str(folder))} --risk {risk:g} "
            "--out policy.json",
            markup=False,
        )
