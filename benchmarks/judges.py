"""Offline judges against the labels of logged replies: the detector, and the estimate of tiers.

    python benchmarks/judges.py --data policybench/gpt-4o_runs [--json OUT]

DIR holds JSON lines named `domain_retrieval_prompt.jsonl` with `question`, `expected_answer`,
`response`, `citation`, `abstained` (yes or no) and `factuality` (tier_1..3, NA), the latter
two given by a language model as a judge. Thresholds of the estimate are fitted on one domain
and measured on the others; `shipped` are those that the package uses, fitted on all.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from knowgate.guard.files import write_json
from knowgate.offline_eval.judging.contract import JudgedReply
from knowgate.offline_eval.judging.judges import DetectorJudge, EstimateJudge

Floats = NDArray[np.float64]
Tiers = NDArray[np.int64]
GRID = np.round(np.arange(0.3, 1.0, 0.01), 2)
ALL = "all"


@dataclass(frozen=True)
class Row:
    """One logged reply with its labels."""

    domain: str
    material: JudgedReply
    abstained: str
    factuality: str


@dataclass(frozen=True)
class Measured:
    """Answers with their labels, and all that the estimate goes by.

    Attributes:
        domains: of each answer, shape (n,).
        tiers: given, 1 to 3, shape (n,).
        closeness: shape (n,).
        settled: tier by rule, 0 where no rule settles it, shape (n,).
    """

    domains: NDArray[np.str_]
    tiers: Tiers
    closeness: Floats
    settled: Tiers

    def of(self, domain: str) -> Measured:
        """Those of one domain."""
        chosen = np.full(len(self.tiers), True) if domain == ALL else self.domains == domain
        return Measured(
            self.domains[chosen], self.tiers[chosen], self.closeness[chosen], self.settled[chosen]
        )

    def estimated(self, acceptable: float, equivalent: float) -> Tiers:
        """Tiers by these thresholds."""
        by_closeness = np.where(
            self.closeness >= equivalent, 1, np.where(self.closeness >= acceptable, 2, 3)
        )
        return np.where(self.settled > 0, self.settled, by_closeness)


def read_rows(folder: Path) -> list[Row]:
    """All logged replies of a folder."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            value = json.loads(line)
            material = JudgedReply(
                reply_id=f"{path.stem}/{number}",
                question=value["question"],
                expected_answer=value["expected_answer"],
                reply=value["response"],
                citation=value["citation"],
            )
            domain = path.stem.partition("_")[0]
            rows.append(Row(domain, material, value["abstained"], value["factuality"]))
    return rows


def detector_scores(rows: list[Row]) -> dict[str, Any]:
    """Errors and kappa of the detector, per domain and altogether."""
    judge, found = DetectorJudge(), {}
    for domain in (*sorted({row.domain for row in rows}), ALL):
        chosen = [row for row in rows if domain in (row.domain, ALL)]
        said = [judge.verdict(row.material).outcome for row in chosen]
        given = [row.abstained for row in chosen]
        found[domain] = {
            "n": len(chosen),
            "errors": sum(a != b for a, b in zip(said, given, strict=True)),
            "kappa": float(cohen_kappa_score(given, said)),
        }
    return found


def measure(rows: list[Row]) -> Measured:
    """Closeness and rules of every answer with a tier."""
    judge = EstimateJudge()
    answers = [row for row in rows if row.factuality.startswith("tier_")]
    closeness, settled = [], []
    for row in answers:
        question, expected, reply = (
            row.material.question,
            row.material.expected_answer,
            row.material.reply,
        )
        closeness.append(judge.closeness(question, expected, reply))
        tier = judge.tier_by_rules(question, expected, reply)
        settled.append(0 if tier is None else int(tier[-1]))
    return Measured(
        np.asarray([row.domain for row in answers]),
        np.asarray([int(row.factuality[-1]) for row in answers]),
        np.asarray(closeness),
        np.asarray(settled),
    )


def fit(cases: Measured) -> tuple[float, float]:
    """Thresholds: best kappa of "tier 1+2 or not", then best quadratic kappa of the tiers."""
    acceptable = max(
        GRID, key=lambda t: cohen_kappa_score(cases.tiers < 3, cases.estimated(t, t) < 3)
    )
    equivalent = max(
        GRID[acceptable <= GRID],
        key=lambda t: cohen_kappa_score(
            cases.tiers, cases.estimated(acceptable, t), weights="quadratic"
        ),
    )
    return float(acceptable), float(equivalent)


def scores(cases: Measured, thresholds: tuple[float, float]) -> dict[str, float]:
    """How well the estimate agrees with the given tiers."""
    found = cases.estimated(*thresholds)
    right, said = cases.tiers < 3, found < 3
    return {
        "n": len(found),
        "acceptable": thresholds[0],
        "equivalent": thresholds[1],
        "accuracy_2": float(np.mean(right == said)),
        "majority_2": float(max(right.mean(), 1 - right.mean())),
        "kappa_2": float(cohen_kappa_score(right, said)),
        "auroc_2": float(roc_auc_score(right, cases.closeness)),
        "rate_given": float(right.mean()),
        "rate_estimated": float(said.mean()),
        "accuracy_3": float(np.mean(cases.tiers == found)),
        "kappa_3": float(cohen_kappa_score(cases.tiers, found)),
        "kappa_3_quadratic": float(cohen_kappa_score(cases.tiers, found, weights="quadratic")),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = read_rows(options.data)
    result: dict[str, Any] = {"detector": detector_scores(rows), "estimate": {}}
    print(f"{len(rows)} replies")
    for domain, found in result["detector"].items():
        print(f"detector {domain}: {found['errors']} errors of {found['n']}, "
              f"kappa {found['kappa']:.3f}")  # fmt: skip
    cases = measure(rows)
    domains = sorted(set(cases.domains.tolist()))
    ways = [(one, fit(cases.of(one)), other) for one in domains for other in domains]
    ways += [(ALL, fit(cases), ALL)]
    ways += [
        ("shipped", (EstimateJudge.acceptable, EstimateJudge.equivalent), name)
        for name in (*domains, ALL)
    ]
    for source, thresholds, target in ways:
        found = scores(cases.of(target), thresholds)
        result["estimate"][f"{source}->{target}"] = found
        shown = " ".join(f"{name} {value:.3f}" for name, value in found.items() if name != "n")
        print(f"estimate {source} -> {target} ({found['n']}): {shown}")
    if options.json is not None:
        write_json(options.json, result)


if __name__ == "__main__":
    main()
