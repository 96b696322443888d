"""`knowgate label`: what people say of replies, and of leaks that another passage answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...guard.errors import InputError, require_extra
from ..report.text import decimal, range_text
from ._console import only_figures, out, print_figures, print_table, progress_bar, tell
from ._options import Port, prints_figures, reject
from ._view import show

if TYPE_CHECKING:
    from ..judging.labelling import Labels
    from ..judging.labelling.review_session import ReviewSession
    from ..judging.labelling.session import LabelSession
    from ..run import RepliesRun

_KEYS = "a answers it after all · n does not · u unsure · s skip · q quit"
# Port, and whether no browser is opened.
_Page = tuple[int, bool]
_VERDICTS = {"a": "answered", "n": "not_answered", "u": "unsure"}
_OF_REPLIES = ("annotator", "consensus", "agreement", "export")
_OF_LEAKS = ("again", "browser", "export", "import")
_ON_PAGES = ("annotator", "consensus", "browser")


@prints_figures
def label(
    run: Annotated[Path, typer.Argument()],
    annotator: str | None = None,
    consensus: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    agreement: bool = False,
    sample: Annotated[int | None, typer.Option(min=1)] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    criterion: list[str] | None = None,
    browser: bool = False,
    again: bool = False,
    export: Path | None = None,
    import_path: Path | None = None,
    port: Port = 0,
    no_browser: bool = False,
) -> None:
    """Label replies, or review leaks: what people say of the rows of a run.

    Of a run of replies, annotators label the same stratified sample in orders of their own, on a
    page in the browser, and see neither judgements nor each other's labels nor which system
    replied.

    Of a run of `knowgate measure`, a person says whether a question is answered after all,
    although its source was left out; in the terminal, or with --browser on a page. First come
    cases that another passage probably answers, then those of the highest relevance. A case that
    is answered is no leak; one that nobody reviewed, or was sure of, stays one. With --json it
    asks nothing and counts the verdicts.

    Every label is on disk before the next case is shown; the same command goes on later.

    Example: `knowgate label run --annotator anna --sample 100`

    Args:
        run: A finished run of replies, or a run of `knowgate measure`.
        annotator: Replies: label under this name; one page per annotator.
        consensus: Replies: settle under this name what annotators disagree on.
        agreement: Replies: print how far annotators agree.
        sample: Replies to label, the same for all annotators; it may grow.  [default: 100, or
            as many as before]
        seed: Of the sample and the orders.  [default: 0]
        criterion: abstention, factuality, or a .toml or .json file; repeatable.  [default:
            what was labelled before, or abstention and factuality]
        browser: Leaks: ask on a page in the browser.
        again: Leaks: ask about cases with a verdict, too.
        export: Write all labels, or all left-out cases with their verdicts, .csv or .jsonl.
        import_path: Leaks: store the verdicts of such a file, all or none.
    """
    from ..judging.labelling import Labels
    from ..judging.labelling.review_session import ReviewSession
    from ..judging.labelling.session import LabelSession
    from ..run import RepliesRun
    from ..run.measured_run import MeasuredRun

    replies = RepliesRun.is_in(run)
    modes = {
        "annotator": annotator, "consensus": consensus, "agreement": agreement, "export": export,
        "import": import_path, "again": again, "browser": browser,
    }  # fmt: skip
    mode = _mode(modes, replies=replies)
    if mode != "annotator":
        sampling = {"sample": sample, "seed": seed, "criterion": criterion}
        reject(sampling, "goes with --annotator only")
    if mode in _ON_PAGES:
        require_extra("serve")
    page = (port, no_browser)
    if not replies:
        if import_path is not None:
            tell("imported", *ReviewSession.store_file(run, import_path))
        elif export is not None or browser or not only_figures():
            with progress_bar("Looking for likely answers") as advance:
                leaks = ReviewSession.open(run, on_scored=advance)
            if export is not None:
                verdicts = leaks.export(export)
                print_figures({"left_out": len(leaks), "reviewed": verdicts, "output": export})
                out.print(f"{len(leaks)} left-out cases, {verdicts} with a verdict → {export}")
                return
            if browser:
                done = len(leaks) - len(leaks.open_positions)
                what = f"{done} of {len(leaks)} left-out questions reviewed"
                _show_page(leaks, what, "verdict", page)
            else:
                _ask(leaks, again=again)
        reviewed = MeasuredRun.read(run, unfinished=True)
        print_figures(reviewed.review_counts())
        tell("reviewed", reviewed, reviewed.review_counts(), run)
        return
    found = RepliesRun.read(run)
    if export is not None:
        number = Labels.read(found.folder).export(found, export)
        print_figures({"replies": number, "output": export})
        out.print(f"{number} replies → {export}")
    elif annotator is not None:
        how: Any = {"size": sample, "seed": seed, "criteria": criterion or ()}
        _show_replies(LabelSession.annotate(found, annotator, **how), page)
    elif consensus is not None:
        _show_replies(LabelSession.consensus(found, consensus), page)
    else:
        _print_agreement(found, Labels.read(found.folder))


def _mode(modes: Mapping[str, object], *, replies: bool) -> str | None:
    """The one option that says what is done; None where leaks are reviewed in the terminal.

    Raises:
        InputError: there are several, it is for another kind of run, or does not go with --json.
    """
    known = _OF_REPLIES if replies else _OF_LEAKS
    what = "leaks, and this run holds replies" if replies else "a run of replies"
    reject({name: one for name, one in modes.items() if name not in known}, f"is for {what}")
    given = [name for name in known if modes[name]]
    if len(given) > 1 or (replies and not given):
        names = ", ".join(f"--{name}" for name in given or known)
        raise InputError("exactly one is needed", where=names, hint="name one of them")
    mode = given[0] if given else None
    if only_figures() and mode in (*_ON_PAGES, "again"):
        raise InputError(f"does not go with --{mode}", where="--json", hint="leave one of both out")
    return mode


def _show_page(session: LabelSession | ReviewSession, what: str, noun: str, page: _Page) -> None:
    """Serve the page until Ctrl-C."""
    from ..web import label_app

    note, (port, no_browser) = f"; every {noun} is stored at once", page
    show(label_app(session), what, note, port=port, no_browser=no_browser)


# -- replies -------------------------------------------------------------------------


def _show_replies(session: LabelSession, page: _Page) -> None:
    if len(session) == 0:
        out.print("there is nothing to settle: no reply has labels that differ")
        return
    _show_page(session, _progress(session), "label", page)
    out.print(_progress(session))


def _progress(session: LabelSession) -> str:
    statuses = session.state()["statuses"]
    done = "settled" if session.settles else "labelled"
    skipped = statuses.count("skipped")
    tail = f", {skipped} skipped" if skipped else ""
    return f"{statuses.count('done')} of {len(statuses)} replies {done}{tail}"


def _print_agreement(run: RepliesRun, labels: Labels) -> None:
    from ..judging.labelling import Agreement

    if not labels.annotators:
        raise InputError(
            "nobody has labelled this run yet",
            where=str(run.folder),
            hint="start with `knowgate label RUN --annotator NAME`",
        )
    found = [Agreement.of(labels, criterion.name, run=run) for criterion in labels.criteria]
    print_figures({one.criterion: {"criterion": one.criterion, **one.to_dict()} for one in found})
    for one in found:
        measures = {f"Cohen's kappa, {a} and {b}": value for (a, b), value in one.cohen.items()}
        measures |= {"Fleiss' kappa": one.fleiss, "Krippendorff's alpha": one.alpha}
        if one.ordinal_alpha is not None:
            measures["Krippendorff's alpha, ordinal"] = one.ordinal_alpha
        rows = [
            (name, decimal(value.value), range_text(value, decimal), str(value.n))
            for name, value in measures.items()
        ]
        out.print(one.criterion)
        print_table(("agreement", "value", "95 % interval", "questions"), rows)
        tell("labelled", one)
    tell("agreement")


# -- leaks -------------------------------------------------------------------------


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
    out.print(f"\n── case {place}{mark}", style="bold")
    out.print(plain(f"{case.row.case_id} · {case.facts}"), style="dim")
    out.print(plain(f"question: {case.question.question}"))
    out.print(plain(f"expected: {case.question.answer or '(no answer is stored)'}"))
    if not case.passages:
        out.print("nothing was retrieved")
    for number, (_, heading, text) in enumerate(case.passages, start=1):
        likely = " (probably answers)" if case.probable and number == 1 else ""
        out.print(f"\npassage {number} · {plain(heading)}{likely}", style="bold")
        out.print(plain(text or "(text not stored in the run)"))


def _decide(session: ReviewSession, position: int) -> bool:
    """Ask until an answer is understood; False to stop."""
    from ..run.measured_run import Review

    passages = session.cases[position].passages
    while True:
        out.print(f"\n{_KEYS}")
        key, _, rest = input("> ").strip().lower().partition(" ")
        if key == "q":
            return False
        if key == "s":
            return True
        number = rest.strip()
        named = number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(passages)
        if key in _VERDICTS and (not number or (key == "a" and named)):
            passage = passages[int(number) - 1][0] if named else None
            session.decide(position, Review.Verdict(_VERDICTS[key]), passage=passage)
            return True
        out.print("answer with one of these letters; “a 2” says that passage 2 answers it")
