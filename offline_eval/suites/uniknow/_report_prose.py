"""The sentences that open the report of this suite."""

from __future__ import annotations

from collections import Counter

from ....calibration import Interval
from ...report import counted, decimal, estimate_text, percent
from ._comparison import PairedDifference
from ._metrics import MethodMetrics
from ._report_names import SITUATIONS, Family, method_name
from ._report_summary import UniKnowSummary

_SPACE = "\u00a0"
_FEW = 30
# Share of a method's replies that may have failed for it still to be compared.
_MOST_FAILED = 0.05


def headline(summary: UniKnowSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    lines = [_best(summary)]
    for guard, base in (("guard_naive", "naive"), ("guard_coiecd", "coiecd")):
        lines.append(_guarded(summary, guard, base))
    lines.append(_against_trained(summary))
    return [line for line in lines if line]


def _best(summary: UniKnowSummary) -> str:
    ranked = sorted(
        (
            (found.overall.rely.value, name)
            for name, found in summary.main.items()
            if found.overall.rely.value is not None and not _mostly_silent(summary, name)
        ),
        key=lambda item: (-item[0], item[1]),
    )
    if not ranked:
        return "Nothing can be ranked: too many cases of this run ended in an error."
    best = summary.main[ranked[0][1]].overall.rely
    words = f"Most reliable: {ranked[0][1]}, with a Rely of {estimate_text(best, decimal)}"
    naive = summary.main.get("naive")
    if naive is None or ranked[0][1] == "naive" or naive.overall.rely.value is None:
        return f"{words}."
    return f"{words}; the model as it is (naive) reaches {decimal(naive.overall.rely.value)}."


def _mostly_silent(summary: UniKnowSummary, name: str) -> bool:
    """Whether rates are not comparable: too many failures, or a guard that always abstains."""
    found = summary.main[name]
    failed = found.failed > _MOST_FAILED * (found.failed + found.overall.cases)
    return failed or (name.startswith("guard_") and _is_shut(summary))


def _is_shut(summary: UniKnowSummary) -> bool:
    return summary.promise is not None and not summary.promise.certified


def _guarded(summary: UniKnowSummary, guard: str, base: str) -> str:
    ours, theirs = summary.main.get(guard), summary.main.get(base)
    if ours is None or theirs is None or _is_shut(summary):
        return ""
    parts = [
        _against(
            ours, theirs, "unknown", "abstains from {} of what neither context nor model knows"
        ),
        _against(ours, theirs, "parametric_only", "is right in {} where only the model knows"),
    ]
    known = [part for part in parts if part]
    if not known:
        return ""
    return f"The guard over {base} " + ", and ".join(known) + "." + _costs(summary, guard, base)


def _costs(summary: UniKnowSummary, guard: str, base: str) -> str:
    """Say where the guard is clearly worse than what it guards; empty if nowhere."""
    found = next((d for d in summary.differences if (d.method, d.base) == (guard, base)), None)
    losses = [
        f"{-100 * difference.value:.1f} points in “{situation.title}”"
        for situation in SITUATIONS
        if found is not None
        for difference in [found.metrics[f"em_{situation.name}"]]
        if difference.value is not None and difference.high is not None and difference.high < 0
    ]
    return f" It costs {' and '.join(losses)}." if losses else ""


def _against(ours: MethodMetrics, theirs: MethodMetrics, scenario: str, words: str) -> str:
    own, base = ours.scenarios[scenario].em, theirs.scenarios[scenario].em
    if own.value is None or base.value is None:
        return ""
    return f"{words.format(percent(own.value))} ({percent(base.value)} without it)"


def _against_trained(summary: UniKnowSummary) -> str:
    if _is_shut(summary):
        return ""
    compared: list[tuple[float, PairedDifference, Interval]] = []
    for found in summary.differences:
        rely = found.metrics["rely"]
        trained = method_name(found.base).family is Family.TRAINED
        if found.method == "guard_naive" and trained and rely.value is not None:
            compared.append((rely.value, found, rely))
    if not compared:
        return ""
    # The smallest difference belongs to the best of the trained methods.
    value, found, rely = min(compared, key=lambda item: (item[0], item[1].base))
    where = "above" if value >= 0 else "below"
    ends = f"{decimal(rely.low)} to {decimal(rely.high)}"
    difference = f"95{_SPACE}% interval of guard_naive minus {found.base}: {ends}"
    return (
        f"The Rely of guard_naive lies {decimal(abs(value))} {where} that of {found.base}, the "
        f"best of the fine-tuned methods ({difference})."
    )


def warnings(summary: UniKnowSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    return [
        line
        for line in (
            _unfinished(summary),
            _failed(summary),
            _shut(summary),
            _uneven(summary),
            _empty(summary),
            _few(summary),
            _grouped(summary),
            _not_built(summary),
        )
        if line
    ]


def _unfinished(summary: UniKnowSummary) -> str:
    rows, planned = len(summary.run.rows), summary.run.plan.rows
    if rows >= planned:
        return ""
    return (
        f"The run is incomplete: {rows} of {planned} replies are there. Start the same "
        "'knowgate eval uniknow' again to complete it."
    )


def _shut(summary: UniKnowSummary) -> str:
    if summary.promise is None or summary.promise.certified:
        return ""
    return (
        f"The guards abstain from everything, as nothing was certified. {summary.promise.statement}"
    )


def _failed(summary: UniKnowSummary) -> str:
    failed = sum(sum(types.values()) for types in summary.failures.values())
    if not failed:
        return ""
    return (
        f"{counted(failed, 'reply', 'replies')} of {len(summary.run.rows)} ended in an error and "
        "count in no rate, because a failed call is no answer. They are listed below."
    )


def _uneven(summary: UniKnowSummary) -> str:
    rows = Counter(row.method for row in summary.run.rows)
    counts = {rows[name] for name in summary.main}
    if len(counts) < 2:
        return ""
    return (
        f"The methods were asked different numbers of cases ({min(counts)} to "
        f"{max(counts)}): compare them by the differences, which rest on common cases alone."
    )


def _empty(summary: UniKnowSummary) -> str:
    empty = [
        situation.title
        for situation in SITUATIONS
        if all(not found.scenarios[situation.name].cases for found in summary.main.values())
    ]
    if not empty:
        return ""
    names = ", ".join(f"“{name}”" for name in empty)
    return (
        f"No case of this run falls under {names}: that column is empty, and with it the mean "
        "of the four."
    )


def _few(summary: UniKnowSummary) -> str:
    fewest = [
        found.scenarios[situation.name].questions
        for found in summary.main.values()
        for situation in SITUATIONS
        if found.scenarios[situation.name].questions
    ]
    if not fewest or min(fewest) >= _FEW:
        return ""
    return (
        f"One of the situations rests on {counted(min(fewest), 'question')} only: consider the "
        "width of the intervals before comparing two methods."
    )


def _grouped(summary: UniKnowSummary) -> str:
    if summary.groups >= summary.questions:
        return ""
    return (
        f"{counted(summary.questions, 'question')} come from "
        f"{counted(summary.groups, 'document or subject', 'documents or subjects')}. Questions "
        "on one of them tend to have the same outcome, and the intervals take each for "
        "independent, so they are somewhat too narrow."
    )


def _not_built(summary: UniKnowSummary) -> str:
    if not summary.problems:
        return ""
    kinds = ", ".join(f"{name}: {count}" for name, count in sorted(summary.problems.items()))
    return f"Some contexts could not be built, and their cases are missing ({kinds})."
