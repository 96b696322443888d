"""The policy-like domains taken together, and scorers fitted on all of them but one.

What a new user meets is a domain that nothing was fitted on. So figures are averaged over domains,
each with one weight, and intervals come from drawing domains, and questions within each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sufficiency_cases import FAQ, Case, CaseSet
from sufficiency_measures import LEAKS, Cell, Judgement, by_question, cell, judge, source_of

from knowgate.calibration import Interval, SelectiveCurve
from knowgate.calibration.training.cases import MixExample, fit_match_model
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer

# Fewer questions say little about a domain.
FEWEST = 40
DRAWS, DOMAIN_DRAWS = 300, 4000
AUROC = "auroc"
Floats = NDArray[np.float64]
# Cases by domain → a scorer fitted on them.
Fit = Callable[[Sequence[Case]], Any]


@dataclass(frozen=True)
class Pooled:
    """One scorer on the policy-like domains.

    Attributes:
        scorer: its name.
        domains: how many, with `FEWEST` questions or more each.
        questions: in all of them.
        figures: mean over domains with its interval, by `SelectiveCurve.auroc` or leak.
        difference: the same of what lies between this scorer and the reference.
    """

    scorer: str
    domains: int
    questions: int
    figures: Mapping[str | float, Interval]
    difference: Mapping[str | float, Interval]

    def to_dict(self) -> dict[str, Any]:
        """All figures."""
        return {
            "scorer": self.scorer,
            "domains": self.domains,
            "questions": self.questions,
            "figures": {str(key): one.to_dict() for key, one in self.figures.items()},
            "difference": {str(key): one.to_dict() for key, one in self.difference.items()},
        }


def figures_of(questions: Sequence[tuple[list[float], list[float]]]) -> list[float]:
    """AUROC and the false abstention at each leak, in the order of `KEYS`."""
    positives = [value for above, _ in questions for value in above]
    negatives = [value for _, below in questions for value in below]
    found = [SelectiveCurve.auroc(positives, negatives)]
    found += [SelectiveCurve.false_abstention(positives, negatives, leak) for leak in LEAKS]
    return [float("nan") if value is None else value for value in found]


KEYS: tuple[str | float, ...] = (AUROC, *LEAKS)


def drawn(name: str, questions: Sequence[tuple[list[float], list[float]]]) -> Floats:
    """The figures of resampled questions, shape (DRAWS, len(KEYS)); the same draws per name."""
    rng = np.random.default_rng(crc32(name.encode()))
    places = rng.integers(0, len(questions), (DRAWS, len(questions)))
    return np.asarray([figures_of([questions[i] for i in row]) for row in places])


def pooled(sets: Sequence[CaseSet], cells: Sequence[Cell], reference: str) -> list[Pooled]:
    """Every scorer that was measured on all policy-like domains, against the reference."""
    domains = [one.name for one in sets if one.pooled and len(one.cases) >= FEWEST]
    if not domains:
        return []
    scorers: dict[str, dict[str, Cell]] = {}
    for one in cells:
        if one.set_name in domains:
            scorers.setdefault(one.scorer, {})[one.set_name] = one
    tables: dict[str, tuple[Floats, Floats]] = {}
    for scorer, by_set in scorers.items():
        if set(by_set) == set(domains):
            asked = {name: by_question(by_set[name].judgements) for name in domains}
            values = np.asarray([figures_of(asked[name]) for name in domains])
            tables[scorer] = values, np.stack([drawn(name, asked[name]) for name in domains])
    questions = sum(len(one.cases) for one in sets if one.name in domains)
    base = tables.get(reference)
    return [
        Pooled(
            scorer,
            len(domains),
            questions,
            intervals(values, draws),
            {}
            if base is None or scorer == reference
            else intervals(values - base[0], draws - base[1]),
        )
        for scorer, (values, draws) in tables.items()
    ]


def intervals(values: Floats, draws: Floats) -> dict[str | float, Interval]:
    """Means over domains with 95 % intervals of a bootstrap over domains, then questions.

    Args:
        values: shape (domains, figures).
        draws: shape (domains, draws, figures).
    """
    rng = np.random.default_rng(0)
    count = len(values)
    chosen = rng.integers(0, count, (DOMAIN_DRAWS, count))
    which = rng.integers(0, draws.shape[1], (DOMAIN_DRAWS, count))
    means = draws[chosen, which].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975), axis=0)
    return {
        key: Interval(float(value), float(least), float(most), count)
        for key, value, least, most in zip(KEYS, values.mean(axis=0), low, high, strict=True)
    }


def domain_left_out(name: str, sets: Sequence[CaseSet], fit: Fit) -> list[Cell]:
    """Each set judged by a scorer that was fitted on the FAQ sites other than it.

    Only FAQ sites are fitted on; a set that is none is judged by a fit on all of them.
    """
    sites = [one for one in sets if one.name.startswith(FAQ)]
    everywhere: Any = None
    found = []
    for case_set in sets:
        if case_set in sites:
            rest = [case for one in sites if one is not case_set for case in one.cases]
            scorer = fit(rest)
        else:
            everywhere = everywhere or fit([case for one in sites for case in one.cases])
            scorer = everywhere
        judgements: list[Judgement] = judge(
            scorer, case_set.cases, each=case_set.unit == "passage", label=name
        )
        found.append(cell(name, case_set, judgements))
    return found


def refitted() -> Fit:
    """A fit of the mix of the trained scorer, whose encoder stays as it is."""
    scorer = SufficiencyScorer()
    known: dict[tuple[str, tuple[str, ...]], tuple[Any, Any]] = {}

    def features(question: str, passages: tuple[str, ...]) -> tuple[Any, Any]:
        key = question, passages
        if key not in known:
            known[key] = scorer.match_features([question], [list(passages)])[0]
        return known[key]

    def fit(cases: Sequence[Case]) -> Any:
        examples = []
        for case in cases:
            source = source_of(case)
            first = (source, *(text for text in case.positives if text != source))
            for passages, sufficient in ((first, True), (case.negatives, False)):
                vectors, joined = features(case.question, passages)
                examples.append(MixExample(tuple(map(tuple, vectors)), tuple(joined), sufficient))
        model = fit_match_model(
            examples,
            features=scorer.model.features,
            length_penalty=scorer.model.length_penalty,
            told=scorer.model.told,
        )
        return SufficiencyScorer(encoder=scorer.encoder, model=model)

    return fit
