"""Abstention detection on logged replies: fit the bundled model, and measure it across domains.

    python benchmarks/abstention.py --data policybench/gpt-4o_runs
    python benchmarks/abstention.py --data DIR --fit guard/abstention/weights.json --json OUT

DIR holds JSON lines named `domain_retrieval_prompt.jsonl` with `id`, `response`, `citation` and
`abstained` (yes or no, the judge's label). Every figure of the fitted model comes from replies
of a domain that it was not fitted on; `bundled` is the model as shipped, which has seen the
domains it was fitted on. Beside it: the published word lists, a regular expression of ten
minutes' work, and the citation field alone.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import GroupKFold

from knowgate.guard.abstention import AbstentionDetector, Citation
from knowgate.guard.abstention.detector import FEATURE_NAMES, AbstentionModel, features, load_rule
from knowgate.guard.abstention.reading import read_citation, read_reply
from knowgate.guard.files import write_json

QUICK = re.compile(
    r"don.?t know|no (?:relevant |specific )?(?:information|citation|mention)"
    r"|(?:not|n.t) (?:\w+ )?(?:provide|mention|specif|address|contain|state|explain)",
    re.IGNORECASE,
)
REGULARISATION = 1.0
# Agreement is flat from .5 to .7; a real answer taken for a refusal is the worse error.
THRESHOLD = 0.6
BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One logged reply."""

    domain: str
    source: str
    question: str
    response: str
    citation: object
    abstained: bool


def read_rows(folder: Path) -> list[Row]:
    """All logged replies of a folder."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            value = json.loads(line)
            rows.append(
                Row(
                    domain=path.stem.partition("_")[0],
                    source=path.stem,
                    question=value["id"],
                    response=value["response"],
                    citation=value["citation"],
                    abstained=value["abstained"] == "yes",
                )
            )
    return rows


def matrix(rows: Sequence[Row], *, with_citation: bool) -> Floats:
    """Features of shape (len(rows), len(FEATURE_NAMES))."""
    found = [
        features(*read_reply(row.response, row.citation if with_citation else Citation.UNKNOWN))
        for row in rows
    ]
    return np.asarray([[f[name] for name in FEATURE_NAMES] for f in found], dtype=np.float64)


def labels(rows: Sequence[Row]) -> Floats:
    """1.0 where the judge saw an abstention."""
    return np.asarray([row.abstained for row in rows], dtype=np.float64)


def both_ways(rows: Sequence[Row]) -> Floats:
    """Each reply twice, with its citation field and without."""
    return np.vstack([matrix(rows, with_citation=way) for way in (True, False)])


def logistic(x: Floats, y: Floats) -> tuple[Floats, float]:
    """Weights and intercept."""
    model = LogisticRegression(C=REGULARISATION, max_iter=2_000, tol=1e-8).fit(x, y)
    return model.coef_[0], float(model.intercept_[0])


def platt(logits: Floats, y: Floats) -> tuple[float, float]:
    """Slope and offset that calibrate logits of replies left out."""
    model = LogisticRegression(C=1e3, max_iter=2_000).fit(logits[:, None], y)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def fit(rows: Sequence[Row], groups: Sequence[str]) -> AbstentionModel:
    """A model of these rows, calibrated on what cross-validation by group left out."""
    x, y = both_ways(rows), np.tile(labels(rows), 2)
    group = np.asarray(list(groups) * 2)
    held = np.empty(len(y))
    folds = GroupKFold(min(5, len(set(groups))))
    for train, test in folds.split(x, y, group):
        weights, intercept = logistic(x[train], y[train])
        held[test] = x[test] @ weights + intercept
    weights, intercept = logistic(x, y)
    slope, offset = platt(held, y)
    return AbstentionModel(
        intercept=round(intercept, 4),
        weights={n: round(float(w), 4) for n, w in zip(FEATURE_NAMES, weights, strict=True)},
        slope=round(slope, 4),
        offset=round(offset, 4),
        threshold=THRESHOLD,
        fitted_on=f"{len(rows)} logged replies of {', '.join(sorted({r.domain for r in rows}))}",
    )


def calibration_error(probabilities: Floats, y: Floats) -> float:
    """Expected calibration error over bins of equal width."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [
        abs(probabilities[bins == b].mean() - y[bins == b].mean()) * float((bins == b).mean())
        for b in range(BINS)
        if (bins == b).any()
    ]
    return float(sum(gaps))


def figures(rows: Sequence[Row], abstained: Sequence[bool], p: Sequence[float]) -> dict[str, Any]:
    """Agreement with the judge; None where there is nothing to count."""
    y, found = labels(rows).astype(bool), np.asarray(abstained, dtype=bool)
    one_kind = len(set(y)) == 1 and len(set(found)) == 1
    return {
        "n": len(rows),
        "kappa": None if one_kind else float(cohen_kappa_score(y, found)),
        "false_positive_rate": float(found[~y].mean()) if (~y).any() else None,
        "recall": float(found[y].mean()) if y.any() else None,
        "errors": int((found != y).sum()),
        "ece": calibration_error(np.asarray(p, dtype=np.float64), y.astype(np.float64)),
    }


def shown(name: str, found: dict[str, Any]) -> str:
    """One line of the table."""

    def number(key: str) -> str:
        value = found[key]
        return "    –" if value is None else f"{value:5.3f}"

    return (
        f"{name:<34} n {found['n']:>5}  kappa {number('kappa')}  "
        f"fpr {number('false_positive_rate')}  recall {number('recall')}  "
        f"errors {found['errors']:>3}  ece {number('ece')}"
    )


def detected(
    detector: AbstentionDetector, rows: Sequence[Row], *, with_citation: bool
) -> list[tuple[bool, float]]:
    """Verdict and probability per reply."""
    fields = [row.citation if with_citation else Citation.UNKNOWN for row in rows]
    verdicts = detector.detect_many([row.response for row in rows], citations=fields)
    return [(verdict.abstained, verdict.probability) for verdict in verdicts]


def across_domains(rows: Sequence[Row], *, with_citation: bool) -> list[tuple[bool, float]]:
    """Verdicts on each domain of a model fitted on the others."""
    found: dict[int, tuple[bool, float]] = {}
    for domain in sorted({row.domain for row in rows}):
        others = [row for row in rows if row.domain != domain]
        model = fit(others, [row.question for row in others])
        places = [i for i, row in enumerate(rows) if row.domain == domain]
        verdicts = detected(
            AbstentionDetector(model), [rows[i] for i in places], with_citation=with_citation
        )
        found.update(zip(places, verdicts, strict=True))
    return [found[i] for i in range(len(rows))]


def report(name: str, rows: Sequence[Row], found: Sequence[tuple[bool, float]]) -> dict[str, Any]:
    """Print and return the figures of all rows, and per domain."""

    def part(keep: Callable[[Row], bool]) -> dict[str, Any]:
        kept = [(row, verdict) for row, verdict in zip(rows, found, strict=True) if keep(row)]
        return figures([r for r, _ in kept], [v[0] for _, v in kept], [v[1] for _, v in kept])

    result: dict[str, Any] = {"all": part(lambda _: True)}
    for domain in sorted({row.domain for row in rows}):
        result[domain] = part(lambda row, domain=domain: row.domain == domain)  # type: ignore[misc]
    for key, value in result.items():
        print(shown(f"{name} [{key}]", value))
    result["files"] = {
        source: part(lambda row, source=source: row.source == source)  # type: ignore[misc]
        for source in sorted({row.source for row in rows})
    }
    return result


def baselines(rows: Sequence[Row]) -> dict[str, list[tuple[bool, float]]]:
    """What costs no fitting."""

    def certain(flags: Iterable[bool]) -> list[tuple[bool, float]]:
        return [(flag, float(flag)) for flag in flags]

    responses = [row.response for row in rows]
    rules = {
        name: certain(verdict.abstained for verdict in load_rule(name).detect_many(responses))
        for name in ("uniknow", "uaqfact")
    }
    return rules | {
        "quick regular expression": certain(QUICK.search(text) is not None for text in responses),
        "citation field alone": certain(
            read_citation(row.citation) is Citation.NONE for row in rows
        ),
    }


def print_errors(rows: Sequence[Row], found: Sequence[tuple[bool, float]]) -> None:
    """Every reply on which judge and detector differ, once."""
    seen = set()
    for row, (abstained, probability) in zip(rows, found, strict=True):
        if abstained == row.abstained or row.response in seen:
            continue
        seen.add(row.response)
        judged = "abstained" if row.abstained else "answered"
        print(f"\n{row.source} · judge: {judged} · probability {probability:.2f} · "
              f"citation {row.citation!r}\n    {row.response}")  # fmt: skip


def main() -> None:
    """Measure, and fit where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of logged runs")
    parser.add_argument("--fit", type=Path, help="write the weights fitted on all domains here")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--errors", action="store_true", help="print every disagreement")
    arguments = parser.parse_args()
    rows = read_rows(arguments.data)
    results = {}
    for way in (True, False):
        name = "fitted, other domain" + ("" if way else ", no citation")
        found = across_domains(rows, with_citation=way)
        results[name] = report(name, rows, found)
        if way:
            for source, value in results[name]["files"].items():
                print(shown(f"  {source}", value))
            if arguments.errors:
                print_errors(rows, found)
    for name, found in baselines(rows).items():
        results[name] = report(name, rows, found)
    if arguments.fit is not None:
        # Calibrated on replies of the domain left out, as all that it will meet are.
        model = fit(rows, [row.domain for row in rows])
        write_json(arguments.fit, model.model_dump())
        print(f"weights → {arguments.fit}")
    else:
        for way in (True, False):
            name = "bundled" + ("" if way else ", no citation")
            found = detected(AbstentionDetector(), rows, with_citation=way)
            results[name] = report(name, rows, found)
    kappas = [results[n]["all"]["kappa"] for n in list(results)[:2]]
    print(f"mean kappa with and without citation field: {statistics.mean(kappas):.3f}")
    if arguments.json is not None:
        write_json(arguments.json, results)


if __name__ == "__main__":
    main()
