"""What share of a judge's calls buys how much of its judgement?

    OMP_NUM_THREADS=1 python benchmarks/cascade.py --data ../shared/data --markdown OUT.md

NoMIRACL (English, 250 questions with ten retrieved passages, judged by people) with the logged
verdicts of three language models, or the bundled `sufficiency_cross`, as the costly stage and
`sufficiency` as the cheap one. A reply that is neither yes nor no counts as a failed verdict, which
abstains. Three tables:

- AUROC by the share of questions that the judge is asked about. The band lies about the median of
  the cheap scores, so nothing is fitted. 0: `sufficiency` alone; 1: it asks about every question.
  Intervals by a bootstrap over questions.
- Share of answerable questions that pass where 10 or 20 % of the others do, by width of the band:
  the place of the band follows from the leak, on the same questions.
- The certificate: the questions are dealt 200 times at random, two thirds to `fit_policy` with
  α = .1 or .2, δ = .1 and a judge that costs 200 questions of the cheap scorer; measured on the
  last third; beside it at a price at which the judge is never asked.

`--simulate` adds how often a certified cascade breaks its bound, on populations whose leak is
known. `--scores FILE` keeps the scores, which take minutes. Without the data it says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import rankdata

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.calibration.risk.fit import Cascade, PolicyBinding
from knowgate.guard.files import read_json, read_jsonl, write_json, write_text
from knowgate.guard.fingerprint import CascadeRule, Fingerprint
from knowgate.guard.signals.relevance import load_scorer

Floats = NDArray[np.float64]
JUDGES = {
    "GPT-4": "gpt-4-azure",
    "GPT-3.5": "gpt-3.5-turbo-azure",
    "Mixtral-8x7B": "Mixtral-8x7B-Instruct-v0.1",
}
# The bundled cross-encoder as the costly stage.
CROSS = "sufficiency_cross"
SHARES = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0)
REACHES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 2.0)
LEAKS = (0.1, 0.2)
SPLITS, DELTA, RESAMPLES, DRAWS = 200, 0.1, 2000, 1000
SAID = {"yes": 1.0, "no": 0.0}
# Cost of one verdict in questions of the cheap scorer.
COSTS = {"never asked": 1e9, "cost 200": 200.0}


@dataclass(frozen=True)
class Judged:
    """The questions with the cheap scores and the verdicts of one judge.

    Attributes:
        cheap: shape (n,).
        verdicts: one per question; None for a reply of neither form.
        sufficient: what people say.
    """

    cheap: Floats
    verdicts: tuple[float | None, ...]
    sufficient: NDArray[np.bool_]

    def values(self, rule: CascadeRule) -> Floats:
        """The cascade's value of each question."""
        pairs = zip(self.cheap.tolist(), self.verdicts, strict=True)
        return np.asarray([rule.value(cheap, verdict) for cheap, verdict in pairs])

    def strictest(self, reach: float) -> Floats:
        """The highest place of the band at which each question passes."""
        pairs = zip(self.cheap.tolist(), self.verdicts, strict=True)
        return np.asarray([CascadeRule.strictest(cheap, v or 0.0, reach) for cheap, v in pairs])

    def asked(self, rule: CascadeRule) -> float:
        """Share of the questions that the judge is asked about."""
        return float(np.mean([rule.asks(one) for one in self.cheap.tolist()]))

    def records(self, chosen: Sequence[int]) -> list[CalibrationRecord]:
        """The chosen questions as records."""
        return [
            CalibrationRecord(
                str(i),
                float(self.cheap[i]),
                None,
                bool(self.sufficient[i]),
                None,
                case="in_kb" if self.sufficient[i] else "left_out",
                verdict=self.verdicts[i],
            )
            for i in chosen
        ]


def auroc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Chance that a positive has the higher score; ties count half."""
    n = int(positive.sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - n * (n + 1) / 2) / (n * (len(positive) - n)))


def interval(scores: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """95 % of a bootstrap over questions."""
    rng, found = np.random.default_rng(0), []
    for _ in range(RESAMPLES):
        drawn = rng.integers(0, len(scores), len(scores))
        found.append(auroc(scores[drawn], positive[drawn]))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def about_median(cheap: Floats, share: float) -> CascadeRule:
    """The rule whose band holds this share of the questions about the median."""
    low, high = np.quantile(cheap, (0.5 - share / 2, 0.5 + share / 2))
    reach = 0.0 if share == 0.0 else float(high - low) + (1e-9 if share == 1.0 else 0.0)
    return CascadeRule(threshold=float(low), reach=reach)


def auroc_lines(judges: dict[str, Judged]) -> Iterator[str]:
    """AUROC by the share asked."""
    shares = " | ".join(f"{share:g}" for share in SHARES)
    yield f"| judge | alone | {shares} | interval at 0.5 |"
    yield "|" + "---|" * (len(SHARES) + 3)
    for name, judged in judges.items():
        # A reply of neither form lies between yes and no.
        alone = np.asarray([0.5 if v is None else v for v in judged.verdicts])
        cells = [f"{auroc(alone, judged.sufficient):.3f}"]
        for share in SHARES:
            values = judged.values(about_median(judged.cheap, share))
            cells.append(f"{auroc(values, judged.sufficient):.3f}")
        half = judged.values(about_median(judged.cheap, 0.5))
        low, high = interval(half, judged.sufficient)
        yield f"| {name} | {' | '.join(cells)} | {low:.3f} to {high:.3f} |"


def coverage_lines(judges: dict[str, Judged]) -> Iterator[str]:
    """Share of answerable questions that pass at a fixed leak."""
    widths = " | ".join(f"{reach:g}" for reach in REACHES)
    yield f"| judge | leak | {widths} |"
    yield "|" + "---|" * (len(REACHES) + 2)
    for name, judged in judges.items():
        for leak in LEAKS:
            cells = []
            for reach in REACHES:
                passing = judged.strictest(reach)
                left_out = np.sort(passing[~judged.sufficient])[::-1]
                # Just above the first one that may not pass.
                place = left_out[int(leak * len(left_out))] + 1e-9
                rule = CascadeRule(threshold=float(place), reach=reach)
                covered = float(np.mean(passing[judged.sufficient] >= place))
                cells.append(f"{covered:.3f} ({judged.asked(rule):.2f})")
            yield f"| {name} | {leak:g} | {' | '.join(cells)} |"


def certified_lines(judges: dict[str, Judged]) -> Iterator[str]:
    """Coverage, leak and share asked of certified policies on questions that they rest on none."""
    yield "| judge | α | verdicts | certified | passes, answerable | leak | asked |"
    yield "|" + "---|" * 7
    for name, judged in judges.items():
        for alpha in LEAKS:
            for costs, cost in COSTS.items():
                found = np.asarray([certified(judged, alpha, cost, seed) for seed in range(SPLITS)])
                covered, leak, asked, sure = found.mean(axis=0)
                yield (
                    f"| {name} | {alpha:g} | {costs} | {sure:.2f} | {covered:.3f} | {leak:.3f} "
                    f"| {asked:.2f} |"
                )


def certified(
    judged: Judged, alpha: float, cost: float, seed: int
) -> tuple[float, float, float, float]:
    """Coverage, leak, share asked, and whether anything was certified, of one deal."""
    order = np.random.default_rng(seed).permutation(len(judged.cheap))
    fitted, test = np.split(order, [2 * len(order) // 3])
    binding = PolicyBinding(
        scorer=Fingerprint(kind="cheap"),
        cascade=Cascade(Fingerprint(kind="costly"), judge_cost=cost),
    )
    fit = fit_policy(judged.records(fitted.tolist()), Leak(alpha), delta=DELTA, binding=binding)
    if fit.policy.relevance_threshold is None or fit.cascade is None:
        return 0.0, 0.0, 0.0, 0.0
    records = fit.cascade.applied(judged.records(test.tolist()))
    relevance = [fit.policy.relevance_calibrator.apply(r.relevance or 0.0) for r in records]
    passes = np.asarray(relevance) >= fit.policy.relevance_threshold
    rule = fit.cascade.rule
    asked = 0.0
    if rule is not None:
        asked = float(np.mean([rule.asks(one) for one in judged.cheap[test].tolist()]))
    sufficient = judged.sufficient[test]
    return float(passes[sufficient].mean()), float(passes[~sufficient].mean()), asked, 1.0


# -- populations whose leak is known --------------------------------------------------


def simulated_lines() -> Iterator[str]:
    """How often a certified cascade lets more than α pass."""
    yield "| passages | α | on failure | cascade breaks α | cheap alone breaks α | no cascade |"
    yield "|" + "---|" * 6
    for passages, alpha in ((60, 0.1), (60, 0.2), (150, 0.1)):
        for on_failure in ("abstain", "cheap"):
            broken = alone = nothing = 0
            rng = np.random.default_rng(0)
            for _ in range(DRAWS):
                cascade = Cascade(
                    Fingerprint(kind="costly"),
                    judge_cost=10.0,
                    abstention_cost=1000.0,
                    on_failure=on_failure,  # type: ignore[arg-type]
                )
                binding = PolicyBinding(scorer=Fingerprint(kind="cheap"), cascade=cascade)
                fit = fit_policy(
                    population(rng, passages), Leak(alpha), delta=DELTA, binding=binding
                )
                band = fit.cascade
                if band is None or band.rule is None:
                    nothing += 1
                    continue
                below, above = ndtr(-band.rule.threshold), ndtr(-band.rule.threshold - band.reach)
                broken += above + 0.4 * (below - above) > alpha
                alone += band.rule.fallback is not None and ndtr(-band.rule.fallback) > alpha
            yield (
                f"| {passages} | {alpha:g} | {on_failure} | {broken / DRAWS:.3f} | "
                f"{alone / DRAWS:.3f} | {nothing / DRAWS:.3f} |"
            )


def population(rng: np.random.Generator, passages: int) -> list[CalibrationRecord]:
    """Cheap scores N(1, 1) and N(0, 1), and a judge that says yes to 95 % and to 40 %."""
    found = []
    for case, mean, yes in (("in_kb", 1.0, 0.95), ("left_out", 0.0, 0.4)):
        scores, verdicts = rng.normal(mean, 1.0, passages), rng.random(passages) < yes
        found += [
            CalibrationRecord(
                str(i), float(scores[i]), None, case == "in_kb", None, case=case,
                verdict=float(verdicts[i]),
            )
            for i in range(passages)
        ]  # fmt: skip
    return found


# -- the command ----------------------------------------------------------------------


def judged_questions(data: Path, scores: Path | None) -> dict[str, Judged] | None:
    """The questions with the verdicts of each judge; None where the data is absent."""
    path = data / "nomiracl" / "en_even.jsonl"
    if not path.is_file():
        return None
    rows = [row for _, row in read_jsonl(path)]
    kept = read_json(scores) if scores is not None and scores.is_file() else {}
    sets = ([row["question"] for row in rows], [row["passages"] for row in rows])
    for name in ("sufficiency", CROSS):
        if name not in kept:
            scorer: Any = load_scorer(name)
            kept[name] = [one.joint for one in scorer.score_sets(*sets)]
            if scores is not None:
                write_json(scores, kept)
    cheap = np.asarray(kept["sufficiency"], dtype=np.float64)
    sufficient = np.asarray([row["sufficient"] for row in rows], dtype=np.bool_)
    nobody = Judged(cheap, (None,) * len(rows), sufficient)
    found = {
        name: replace(nobody, verdicts=tuple(SAID.get(row["verdicts"][key]) for row in rows))
        for name, key in JUDGES.items()
    }
    found[CROSS] = replace(nobody, verdicts=tuple(expit(kept[CROSS]).tolist()))
    return found


def main() -> None:
    """Measure, print the tables and write what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--scores", type=Path, help="keep the scores here")
    parser.add_argument("--simulate", action="store_true", help="also check the promise")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    given = parser.parse_args()
    judges = judged_questions(given.data, given.scores)
    parts: list[str] = []
    if judges is None:
        print(f"skipped: {given.data / 'nomiracl'} is not there")
    else:
        parts += [
            "AUROC by the share of questions that the judge is asked about:",
            "\n".join(auroc_lines(judges)),
            "Share of answerable questions that pass at a leak on the same questions, by width of "
            "the band (in brackets the share asked):",
            "\n".join(coverage_lines(judges)),
            f"Certified at δ = {DELTA:g} on two thirds, measured on the last third, mean of "
            f"{SPLITS} deals:",
            "\n".join(certified_lines(judges)),
        ]
    if given.simulate:
        parts += [f"{DRAWS} simulated calibrations at δ = {DELTA:g}:", "\n".join(simulated_lines())]
    table = "\n\n".join(parts)
    print(table)
    if given.markdown is not None and parts:
        write_text(given.markdown, table + "\n")


if __name__ == "__main__":
    main()
