"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ....calibration import Interval
from ...data.answers.matching import is_right
from ...report.document import Document
from ...report.plots import Colour, Plot, dots
from ...report.tables import Cell
from ...report.text import decimal, percent
from ...report.what_if import WhatIf, WhatIfCase
from ..parts import run_document
from ._cases import CONTENT, PAPER_KINDS, TEXTS
from ._guard import calibrated
from ._metrics import (
    ALL,
    PUBLISHED,
    SITUATIONS,
    Shares,
    UniKnowRun,
    shown_method,
)

_TITLES = {situation["name"]: situation["title"] for situation in SITUATIONS}


def uniknow_what_if(run: UniKnowRun) -> WhatIf | str | None:
    """Let a reader try other thresholds on the guard over the naive method.

    Returns:
        None where that guard or the naive method took no part; a sentence where the stored
        signals do not give the stored decisions.
    """
    if run.policy is None:
        return None
    replies = {row.case_key: row for row in run.rows if row.method == "naive" and not row.error}
    signals = {one.case_id: one for one in run.signals}
    found, other = [], 0
    for row in run.rows:
        reply, signal = replies.get(row.case_key), signals.get(row.case_key)
        guarded = row.method == "guard_naive" and not row.error and row.context_kind in PAPER_KINDS
        if not guarded or reply is None or signal is None:
            continue
        case = run.cases[row.case_key]
        relevance, confidence = calibrated(run.policy, signal)
        remembered = is_right((signal.closed_book or "").strip(), case.expected)
        shown = WhatIfCase(
            relevance=relevance,
            confidence=confidence,
            context_right=signal.holds_answer,
            memory_right=bool(signal.closed_book_right),
            context_reply="abstained" if reply.abstained else "right" if reply.right else "wrong",
            memory_reply="right" if remembered else "wrong",
            name=signal.case_id,
            question=case.question,
        )
        found.append(shown)
        other += shown.route(run.policy) != row.route
    if other:
        return TEXTS.text("no_what_if", other)
    block = WhatIf(
        cases=tuple(found),
        policy=run.policy,
        which="Cases of the four situations, of the method guard_naive",
        leave_one_out=False,
        replies=True,
        notes=(TEXTS.text("what_if"),),
    )
    return block if found and block.moving else None


def _published(run: UniKnowRun) -> Iterator[tuple[str, dict[str, Cell]]]:
    """Yield each method with the numbers that were published, those of this run beneath."""
    for name, found in PUBLISHED.items():
        own = run.methods.get(name)
        cells = {
            scenario: _beneath(percent, value, own[scenario]["em"] if own else None)
            for scenario, value in found["em"].items()
        }
        cells["rely"] = _beneath(decimal, found["rely_nq"], own[ALL]["rely"] if own else None)
        yield name, cells


def _beneath(
    text: Callable[[float | None], str], published: float | None, own: Interval | None
) -> Cell:
    here = None if own is None else own.value
    return Cell(text(published), "" if here is None else f"here {text(here)}")


_MARKS = {
    "prompt only": ("o", Colour.GREY),
    "decoding": ("^", Colour.AMBER),
    "fine-tuned": ("s", Colour.BLUE),
    "guarded": ("D", Colour.VERMILION),
    "other": ("X", Colour.PURPLE),
}
_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")


def _situations_plot(methods: Mapping[str, Mapping[str, Any]]) -> Plot | None:
    """Plot what some methods with cases did in each situation; None without any."""
    # A name that no plot can hold becomes a number.
    labels = [
        name if _PLAIN.fullmatch(name) else f"method {number}"
        for number, name in enumerate(methods, start=1)
    ]
    panels = {
        f"{one['title']}\n({one['letter']})": [
            ("", *_MARKS[shown_method(name)[0]], [*[None] * line, found[one["name"]]["em"]])
            for line, (name, found) in enumerate(methods.items())
        ]
        for one in SITUATIONS
    }
    words = CONTENT["plot"]
    about = "situations", words["title"], words["caption"]
    return dots(about, labels, panels) if labels else None


# Share of a method's replies that may have failed for it still to be compared.
_MOST_FAILED = 0.05


def uniknow_document(run: UniKnowRun) -> Document:
    """Make the report of a summarised run."""
    methods, ablations = run.methods, run.ablations
    shown = {name: found for name, found in methods.items() if found[ALL].cases}
    bases = {name.partition("@")[0] for name in ablations}
    usual = {name: found for name, found in methods.items() if name in bases}
    differences = run.differences.items()
    shares = {name: [method[name] for method in methods.values()] for name in _TITLES}
    sizes = [one.questions for own in shares.values() for one in own if one.questions]
    facts = {
        "content": CONTENT,
        "best": _best(run),
        "trained": _best_trained(run),
        "asked": {run.asked[name] for name in methods},
        "empty": [_TITLES[name] for name, own in shares.items() if not any(s.cases for s in own)],
        "smallest": min(sizes, default=None),
        "shown": shown,
        "plot": _situations_plot(shown),
        "what_if": uniknow_what_if(run),
        "situations": [_situation(one, shares[one["name"]]) for one in SITUATIONS],
        "meanings": [(name, meaning) for name in shown if (meaning := shown_method(name)[1])],
        "differences": {f"{pair[0]} − {pair[1]}": found for pair, (_, found) in differences},
        "ablations": usual | ablations if ablations else {},
        "beyond": {
            kind: {name: one for name, one in found.items() if name in methods}
            for kind, found in run.beyond.items()
        },
        "published": dict(_published(run)),
    }
    return run_document("uniknow", TEXTS, run.manifest, run, facts)


def _best(run: UniKnowRun) -> str | None:
    """Return the most reliable method; None where too many cases failed to say."""
    rely = {
        name: found[ALL]["rely"].value or 0.0
        for name, found in run.methods.items()
        if (cases := found[ALL].cases)
        and run.failed(name) <= _MOST_FAILED * (run.failed(name) + cases)
        and not (run.abstains_always and name.startswith("guard_"))
    }
    return min(rely, key=lambda name: (-rely[name], name), default=None)


def _best_trained(run: UniKnowRun) -> tuple[str, Interval] | None:
    """Return the fine-tuned method that guard_naive is least above, and by how much."""
    trained = {
        base: found["rely"]
        for (method, base), (_, found) in run.differences.items()
        if method == "guard_naive" and shown_method(base)[0] == "fine-tuned"
        if found["rely"].value is not None
    }
    best = min(trained, key=lambda base: (trained[base].value, base), default=None)
    return None if best is None else (best, trained[best])


def _situation(one: Mapping[str, str], found: Sequence[Shares]) -> tuple[str | int, ...]:
    questions = max((shares.questions for shares in found), default=0)
    cases = max((shares.cases for shares in found), default=0)
    return f"{one['title']} ({one['letter']})", one["what"], one["wanted"], questions, cases
