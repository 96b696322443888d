"""Tables and examples of `sufficiency.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sufficiency_cases import CaseSet
from sufficiency_domains import AUROC, FEWEST, Pooled
from sufficiency_measures import LEAKS, Cell, Judgement

from knowgate.calibration import Interval

EXAMPLES, MOST_PER_SET = 10, 3
SHORT = 320
HEAD = (
    "| scorer | AUROC | false abstention at 5 % | at 10 % | at 20 % | ECE | ms, cold | ms, cached "
    "| unsupported |\n|---|---|---|---|---|---|---|---|---|"
)
POOLED_HEAD = (
    "| scorer | AUROC | false abstention at 5 % | at 10 % | at 20 % | AUROC, difference "
    "| at 10 %, difference |\n|---|---|---|---|---|---|---|"
)
LACKS = {
    "off_answer": "Insufficient passages answer something else",
    "on_topic": "Insufficient passages speak of what is asked",
}


def share(value: float | None) -> str:
    """Three digits without the leading zero."""
    if value is None:
        return "–"
    text = f"{value:.3f}"
    return text if abs(value) >= 1 else text.replace("0.", ".", 1)


def interval_text(found: Interval | None, *, signed: bool = False) -> str:
    """A value with its interval."""
    if found is None or found.value is None:
        return "–"
    sign = "+" if signed and found.value >= 0 else ""
    return f"{sign}{share(found.value)} [{share(found.low)}, {share(found.high)}]"


def row(one: Cell) -> str:
    """A row of the table."""
    auroc = interval_text(one.auroc)
    rates = [share(one.false_abstention[leak]) for leak in LEAKS]
    times = ["–" if t is None else f"{t:.1f}" for t in (one.cold, one.cached)]
    unsupported = f"{one.unsupported:.0%}" if one.unsupported else "–"
    return f"| {' | '.join((one.scorer, auroc, *rates, share(one.ece), *times, unsupported))} |"


def pooled_table(found: Sequence[Pooled], reference: str) -> str:
    """The policy-like domains taken together."""
    rows = [
        f"**Policy-like domains, answers only** ({found[0].domains} domains of {FEWEST} or more "
        f"questions, {found[0].questions} in all). Means over domains, one weight each; intervals "
        f"by drawing domains, then questions; differences to {reference}.\n",
        POOLED_HEAD,
    ]
    for one in found:
        values = [interval_text(one.figures[key]) for key in (AUROC, *LEAKS)]
        values += [interval_text(one.difference.get(key), signed=True) for key in (AUROC, 0.10)]
        rows.append(f"| {' | '.join((one.scorer, *values))} |")
    return "\n".join(rows)


def markdown(
    sets: Sequence[CaseSet], cells: Sequence[Cell], together: Sequence[Pooled], reference: str
) -> str:
    """The policy-like domains, then one table per set, scorers in the order measured."""
    parts = [pooled_table(together, reference)] if together else []
    for lacks, heading in LACKS.items():
        chosen = [one for one in sets if one.lacks == lacks]
        parts += [f"### {heading}"] * bool(chosen)
        for case_set in chosen:
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
