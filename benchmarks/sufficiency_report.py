"""Tables and examples of `sufficiency.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sufficiency_cases import CaseSet
from sufficiency_measures import LEAKS, Cell, Judgement

EXAMPLES, MOST_PER_SET = 10, 3
SHORT = 320
HEAD = (
    "| scorer | AUROC | false abstention at 5 % | at 10 % | ECE | ms, cold | ms, cached "
    "| unsupported |\n|---|---|---|---|---|---|---|---|"
)


def share(value: float | None) -> str:
    """Three digits without the leading zero."""
    if value is None:
        return "–"
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.3f}"


def row(one: Cell) -> str:
    """A row of the table."""
    interval = one.auroc
    auroc = share(interval.value)
    if interval.value is not None:
        auroc += f" [{share(interval.low)}, {share(interval.high)}]"
    rates = [share(one.false_abstention[leak]) for leak in LEAKS]
    times = ["–" if t is None else f"{t:.1f}" for t in (one.cold, one.cached)]
    unsupported = f"{one.unsupported:.0%}" if one.unsupported else "–"
    return f"| {' | '.join((one.scorer, auroc, *rates, share(one.ece), *times, unsupported))} |"


def markdown(sets: Sequence[CaseSet], cells: Sequence[Cell]) -> str:
    """One table per set, scorers in the order measured."""
    parts = []
    for case_set in sets:
        rows = [row(one) for one in cells if one.set_name == case_set.name]
        count = f"{len(case_set.cases)} questions"
        title = f"**{case_set.name}** ({count}). {case_set.title}"
        parts.append("\n".join((f"{title}\n", HEAD, *rows)))
    return "\n\n".join(parts)


def worst(cells: Sequence[Cell], *, sufficient: bool) -> list[tuple[str, Judgement]]:
    """The ten judgements furthest from right, each question once, few of any one set."""
    found = [
        (one.set_name, judgement)
        for one in cells
        for judgement in one.judgements
        if judgement.sufficient is sufficient
    ]
    found.sort(key=lambda pair: pair[1].relevance if sufficient else -pair[1].relevance)
    kept: list[tuple[str, Judgement]] = []
    per_set: Counter[str] = Counter()
    asked: set[str] = set()
    for name, judgement in found:
        if judgement.case.question in asked or per_set[name] == MOST_PER_SET:
            continue
        asked.add(judgement.case.question)
        per_set[name] += 1
        kept.append((name, judgement))
    return kept[:EXAMPLES]


def examples(scorer: str, cells: Sequence[Cell]) -> str:
    """The worst false passes and false abstentions, each with room for the reason.

    Sets with passages judged one by one repeat those judged together, and are left out.
    """
    own = [one for one in cells if one.scorer == scorer and not one.set_name.endswith("-passages")]
    parts = [
        f"# Where {scorer} fails\n",
        f"Furthest from right by calibrated relevance; {MOST_PER_SET} of any one set at most.",
    ]
    for title, sufficient in (("False passes", False), ("False abstentions", True)):
        parts.append(f"\n## {title}")
        for number, (name, one) in enumerate(worst(own, sufficient=sufficient), start=1):
            text = " ".join(one.best.split())
            text = text if len(text) <= SHORT else f"{text[:SHORT].rstrip()} …"
            parts.append(
                f"\n{number}. **{' '.join(one.case.question.split())}** ({name})\n"
                f"   - relevance {one.relevance:.3f}, raw {one.raw:.3f}, best passage "
                f"{one.best_score:.3f}\n   - best passage: {text}\n   - why:"
            )
    return "\n".join(parts) + "\n"
