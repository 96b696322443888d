"""The sentences that open the report of a run of replies."""

from __future__ import annotations

from collections.abc import Mapping

from ....calibration import Interval
from ...report import counted, decimal, estimate_text, one_line, percent
from ...run import (
    Judgement,
)
from ._replies_differences import Comparison
from ._replies_evidence import ReplyCounts, ReplyShape
from ._replies_names import OFF, labels
from ._replies_summary import RepliesSummary

_SPACE = "\u00a0"
_MOST_BASES = 4
_MOST_COMPARED = 2


def lead(summary: RepliesSummary) -> str:
    """Write the one sentence that opens a report of several systems; empty if nothing fits.

    With guards: what the best of them changes. Without: which system answers wrongly least
    often, or abstains most often where nobody judged answers.
    """
    names = labels(tuple(summary.evidence.run.systems.values()))
    return _best_guard(summary, names) or next(iter(_extremes(summary, None, names)[::-1]), "")


def _best_guard(summary: RepliesSummary, names: Mapping[str, str]) -> str:
    systems, found = summary.evidence.run.systems, []
    by_id = {one.system.system_id: one for one in summary.systems}
    for one in summary.differences:
        guarded = one.factor == "guard" and systems[one.base].guard == OFF and not one.run
        shape = by_id[one.other].fair(None) if guarded else None
        if shape is not None:
            wrong, abstained = shape.out_of_kb.wrong_answer_rate, shape.out_of_kb.abstention_rate
            rank = (1.0 if wrong.value is None else wrong.value, -(abstained.value or 0.0))
            found.append((rank, names[one.other], one, shape))
    if not found:
        return ""
    _, name, comparison, shape = min(found, key=lambda each: each[:2])
    parts = [
        f"{words} {percent(rate.value)} of the questions {asked} ({_against(comparison, measure)})"
        for words, rate, asked, measure in (
            (
                "answers wrongly in",
                shape.out_of_kb.wrong_answer_rate,
                "that the knowledge base does not answer",
                "wrong_answer",
            ),
            (
                "abstains falsely in",
                shape.in_kb.abstention_rate,
                "that it does answer",
                "false_abstention",
            ),
        )
        if rate.value is not None and _against(comparison, measure)
    ]
    if not parts:
        rate = shape.out_of_kb.abstention_rate
        against = _against(comparison, "abstention")
        if rate.value is None or not against:
            return ""
        asked = "of the questions that the knowledge base does not answer"
        parts = [f"abstains from {percent(rate.value)} {asked} ({against})"]
    return f"With its guard, “{name}” {' and '.join(parts)}."


def _against(comparison: Comparison, measure: str) -> str:
    """Write a difference to the same system without its guard; empty if there is none."""
    one = comparison.differences.get(measure)
    if one is None or one.difference.value is None:
        return ""
    change = 100 * one.difference.value
    if round(abs(change), 1) == 0:
        return "as without it"
    side = "more" if change > 0 else "fewer"
    return f"{abs(change):.1f} percentage points {side} than without it"


def headline(summary: RepliesSummary) -> list[str]:
    """Write the sentences on the results, the most important one first."""
    if not summary.evidence.replies:
        return [_nothing(summary)]
    names = labels(tuple(summary.evidence.run.systems.values()))
    guarded, since = _guarded(summary, names), _since(summary, names)
    if len(summary.systems) == 1:
        return [*_alone(summary), *since]
    lines = _every(summary)
    for base in _bases(summary):
        lines += _extremes(summary, base, names)
    # Rates over systems with and without a guard say little: what it changes comes first.
    return [*guarded, *lines, *since]


def judged_words(summary: RepliesSummary) -> str:
    """Say who judged, in one sentence."""
    first, second = (
        judge_words(summary.evidence.primary(name))
        for name in (Judgement.ABSTENTION, Judgement.FACTUALITY)
    )
    if first == second == "nobody":
        return "Nobody has judged whether replies abstain, nor whether they are right."
    if first == second:
        return f"Abstention and factuality are judged by {first}."
    return f"Abstention is judged by {first}, factuality by {second}."


def judge_words(judge: str | None) -> str:
    """Write the name of a judge for readers."""
    if judge is None:
        return "nobody"
    return {
        "given": "the labels that came with the replies",
        "detector": "the offline detector",
        "estimate": "an offline estimate",
    }.get(judge, judge)


def p_words(value: float | None) -> str:
    """Write a p-value briefly.

    Example:
        >>> p_words(0.0312), p_words(0.5), p_words(None)
        ('0.031', '0.500', '–')
    """
    if value is None:
        return "–"
    return "<\u00a00.001" if value < 0.001 else f"{value:.3f}"


def points(interval: Interval) -> tuple[str, str]:
    """Write a difference in percentage points: its value and its interval."""
    if interval.value is None or interval.low is None or interval.high is None:
        return "–", ""
    value, low, high = (
        decimal(100 * number, 1, signed=True)
        for number in (interval.value, interval.low, interval.high)
    )
    return value, f"{low} to {high}"


def share_words(part: int | None, whole: int, rate: Interval) -> str:
    """Count and rate with its interval, for the middle of a sentence."""
    if part is None or rate.value is None or rate.low is None or rate.high is None:
        return "not measured"
    interval = f"95{_SPACE}% interval {percent(rate.low)} to {percent(rate.high)}"
    return f"{part} of {whole} ({percent(rate.value)}, {interval})"


def _nothing(summary: RepliesSummary) -> str:
    failed = len(summary.evidence.failed)
    if failed:
        replies = counted(failed, "reply", "replies")
        return f"Nothing could be measured: all {replies} of this run ended in an error."
    return "Nothing could be measured: the run has no replies yet."


def _alone(summary: RepliesSummary) -> list[str]:
    (system,) = summary.systems
    shape = system.fair(None)
    if shape is None:
        return [
            "Nothing can be said of this guard: its policy was calibrated on every question "
            "that was asked here."
        ]
    lines = [_abstained(shape.out_of_kb), _answered(shape.out_of_kb), _false_abstentions(shape)]
    if system.held_out is not None:
        lines.append("These are the questions that the guard’s policy was not calibrated on.")
    return [line for line in lines if line]


def _abstained(found: ReplyCounts) -> str:
    if not found.n:
        return "No question was asked whose answer the knowledge base does not hold."
    if found.abstained is None:
        return (
            f"Nobody has judged whether the {counted(found.n, 'reply', 'replies')} to questions "
            "outside the knowledge base abstain: 'knowgate judge' on this run does."
        )
    judged = found.n - found.unjudged_abstention
    return (
        f"Of {counted(judged, 'question')} whose answer is not in the knowledge base, the system "
        f"abstained from {found.abstained} ({_rate(found.abstention_rate)})."
    )


def _answered(found: ReplyCounts) -> str:
    tiered = _tiered(found)
    if not tiered:
        return ""
    wrong = found.tiers["tier_3"] or 0
    return (
        f"Of the {counted(tiered, 'reply', 'replies')} that it gave all the same, "
        f"{_were(tiered - wrong)} right or nearly so ({_rate(found.factuality_rate)}); "
        f"{_were(wrong)} wrong or misleading."
    )


def _were(count: int) -> str:
    return counted(count, "was", "were")


def _false_abstentions(shape: ReplyShape) -> str:
    found = shape.in_kb
    if not found.n or found.abstained is None:
        return ""
    judged = found.n - found.unjudged_abstention
    return (
        f"Of {counted(judged, 'question')} whose answer is in the knowledge base, it abstained "
        f"from {found.abstained}, falsely ({_rate(found.abstention_rate)})."
    )


def _every(summary: RepliesSummary) -> list[str]:
    found = summary.shape.out_of_kb
    number = len(summary.systems)
    systems = f"{number} systems together"
    if summary.pooled == "guarded":
        number = sum(one.system.guard != OFF for one in summary.systems)
        systems = (
            "1 system with a guard" if number == 1 else f"{number} systems with guards together"
        )
    if not found.n or found.abstained is None:
        return [_abstained(found)]
    judged = found.n - found.unjudged_abstention
    lines = [
        f"{systems} gave {counted(judged, 'reply', 'replies')} to questions whose "
        f"answer is not in the knowledge base, and abstained in {found.abstained} "
        f"({_rate(found.abstention_rate)})."
    ]
    tiered = _tiered(found)
    if tiered:
        wrong = found.tiers["tier_3"] or 0
        lines.append(
            f"Of the {tiered} that did not abstain, {_were(tiered - wrong)} right or nearly so "
            f"({_rate(found.factuality_rate)}); {_were(wrong)} wrong or misleading."
        )
    in_kb = summary.shape.in_kb
    if in_kb.n and in_kb.abstained is not None:
        judged = in_kb.n - in_kb.unjudged_abstention
        lines.append(
            f"Where the answer was in the knowledge base, {in_kb.abstained} of "
            f"{counted(judged, 'reply', 'replies')} abstained falsely "
            f"({_rate(in_kb.abstention_rate)})."
        )
    return lines


def _rate(rate: Interval) -> str:
    return estimate_text(rate, brackets=False)


def _bases(summary: RepliesSummary) -> list[str | None]:
    """List the knowledge bases to describe one by one; None: all together."""
    names = list(summary.knowledge_bases)
    return [*names] if 1 < len(names) <= _MOST_BASES else [None]


def _extremes(summary: RepliesSummary, base: str | None, names: Mapping[str, str]) -> list[str]:
    shapes = [
        (names[one.system.system_id], shape)
        for one in summary.systems
        if (shape := one.fair(base)) is not None
    ]
    unseen = any(one.held_out is not None for one in summary.systems)
    note = " (questions known from a guard’s calibration do not count for it)" if unseen else ""
    ranked = sorted(
        (
            (found.out_of_kb, name)
            for name, found in shapes
            if found.out_of_kb.abstention_rate.value is not None
        ),
        key=lambda item: (-(item[0].abstention_rate.value or 0.0), item[1]),
    )
    if len(ranked) < 2:
        return []
    (most, best), (least, worst) = ranked[0], ranked[-1]
    where = "" if not base else f"{one_line(base, 60)}: "
    lines = [
        f"{where}“{best}” abstained most often, {_of(most)}; “{worst}” least often, {_of(least)}"
        f"{note}."
        if most.abstention_rate.value != least.abstention_rate.value
        else f"{where}{'all' if where else 'All'} systems abstained equally often, "
        f"{percent(most.abstention_rate.value or 0.0)} of the time{note}."
    ]
    wrong = sorted(
        (
            (found.out_of_kb.wrong_answer_rate.value, name, found.out_of_kb)
            for name, found in shapes
            if found.out_of_kb.wrong_answer_rate.value is not None
        ),
        key=lambda item: (item[0], item[1]),
    )
    if len(wrong) > 1 and wrong[0][0] < wrong[-1][0]:
        low, high = wrong[0], wrong[-1]
        lines.append(
            f"{where}{'the' if where else 'The'} fewest wrong answers came from “{low[1]}” "
            f"({_wrong(low[2])}), the most from “{high[1]}” ({_wrong(high[2])})."
        )
    return lines


def _of(found: ReplyCounts) -> str:
    judged = found.n - found.unjudged_abstention
    return share_words(found.abstained, judged, found.abstention_rate)


def _wrong(found: ReplyCounts) -> str:
    known = found.n - found.unjudged_factuality
    rate = found.wrong_answer_rate
    return f"{found.tiers['tier_3']} of {known}, {_rate(rate)}"


def _tiered(found: ReplyCounts) -> int:
    return sum(count or 0 for count in found.tiers.values())


def _guarded(summary: RepliesSummary, names: Mapping[str, str]) -> list[str]:
    systems = summary.evidence.run.systems
    found = [
        (one, line)
        for one in summary.differences
        if one.factor == "guard"
        and systems[one.base].guard == OFF
        and (line := _compared(one, names))
    ]
    lines = [line for _, line in found[:_MOST_COMPARED]]
    if len(found) > _MOST_COMPARED:
        more = counted(len(found) - _MOST_COMPARED, "guarded system is", "guarded systems are")
        lines.append(f"{more} compared below.")
    return lines


def _since(summary: RepliesSummary, names: Mapping[str, str]) -> list[str]:
    """Say what changed since another run, if chance does not explain it."""
    by_run: dict[str, list[Comparison]] = {}
    for one in summary.differences:
        if one.run:
            by_run.setdefault(one.run, []).append(one)
    lines: list[str] = []
    for run, found in by_run.items():
        clear = [one for one in found if any(test.shown for test in one.differences.values())]
        if len(found) == 1:
            clear = found
        lines += filter(None, (_compared(one, names) for one in clear[:_MOST_COMPARED]))
        if not clear:
            lines.append(
                f"Against the run “{run}”, none of {len(found)} systems differs by more than "
                "chance explains (see below)."
            )
    return lines


def _compared(found: Comparison, names: Mapping[str, str]) -> str:
    who = names.get(found.other, found.other)
    what = "With the guard" if found.factor == "guard" else f"Against the run “{found.run}”"
    parts = [
        changed
        for name, words in (
            ("abstention", "abstaining where the knowledge base has no answer"),
            ("wrong_answer", "wrong answers"),
            ("false_abstention", "false abstentions"),
        )
        if (changed := _changed(found, name, words))
    ]
    if not parts:
        return ""
    cases = counted(found.pairs, "case", "cases")
    unseen = f", without {found.seen} known from calibration" if found.seen else ""
    return f"{what} (“{who}”, {cases} in both{unseen}), in percentage points: {'; '.join(parts)}."


def _changed(found: Comparison, name: str, words: str) -> str:
    one = found.differences.get(name)
    if one is None or one.difference.value is None:
        return ""
    value, interval = points(one.difference)
    return f"{words} {value} ({interval}, adjusted p{_SPACE}{p_words(one.p_adjusted)})"


_EVAL_AGAIN = "The same 'knowgate eval ookb' again, with --retry-failed, asks for what is missing."


def next_steps(summary: RepliesSummary) -> list[tuple[str, str]]:
    """List what to do after reading, the most urgent first."""
    evidence, steps = summary.evidence, []
    if summary.missing or evidence.failed:
        steps.append(("Complete the run", _EVAL_AGAIN))
    if not evidence.replies:
        return steps
    if evidence.primary(Judgement.FACTUALITY) is None:
        steps.append(
            (
                "Have the answers judged",
                "'knowgate judge' on this run, with a language model as judge, says which are "
                "right. Then report again.",
            )
        )
    elif summary.labels is None:
        steps.append(
            (
                "Check the judge",
                "'knowgate label' lets a person label a sample of these replies; the report then "
                "says how far the judge agrees, and corrects its rates.",
            )
        )
    if all(one.system.guard == OFF for one in summary.systems):
        steps.append(
            (
                "Try a guard",
                "'knowgate measure' and 'knowgate calibrate' on the same questions make a policy; "
                "give it as --guard beside --guard off.",
            )
        )
    return [
        *steps,
        (
            "Read single replies",
            "'knowgate view' on this run shows each, and compares two systems.",
        ),
        (
            "Keep what is reached",
            "'knowgate report --fail-if' with a measure of this page ends with exit code 1 where a "
            "release is worse.",
        ),
    ]
