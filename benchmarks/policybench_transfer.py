"""Does a policy's promise hold on another domain? PolicyBench, both ways, and within one domain.

    python benchmarks/policybench_transfer.py --questions BTT.json CPF.json --runs DIR

For every two question documents: `knowgate measure` and the fit of `knowgate calibrate` on all
questions of the one, `policybench.py` on the other. For comparison, within one document: seeded
halves, each tested by the policy that was fitted on the other one, ten times over. The promise is
about "source left out, passes", the share of questions that pass with their passage left out of the
knowledge base and the five nearest passages retrieved; it is made for the domain of the fit alone.
The other figures are those of `policybench.py`, over the run files that gave the model passages.

`question_answer` is what the logged model read; the question asked then stands word for word in
its source, which makes false abstention look rarer than it is where users ask in words of their
own. `answer` leaves the guard the answers alone. The intervals are over test questions, not over
policies.

`--json` has a list: `fitted_on`, `tested_on`, `scorer`, `passage`, `risk`, `delta`, `policies` (how
many), `certified` (of them), `thresholds` and `result` as in `policybench.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from policybench_guard import TOP, Asked, Judges, judges_of
from policybench_logs import Document, Run, read_document, read_runs
from policybench_measures import Part, Result, measured
from policybench_rates import shown

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.guard import KnowgateError, Policy
from knowgate.guard.files import write_json, write_text
from knowgate.guard.fingerprint import default_aggregator
from knowgate.guard.signals.relevance import load_scorer
from knowgate.offline_eval.data.questions import PassageKind
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb.instruments import Instruments

HEAD = (
    "| passages | scorer | α | fitted on | tested on | source left out, passes | unsafe, no guard "
    "| unsafe, guard | right replies stopped | false abstention, retrieved "
    "| … source added to the log |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Domain:
    """One question document with its runs and the records that policies are fitted on."""

    document: Document
    runs: tuple[Run, ...]
    records: tuple[CalibrationRecord, ...]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    fitted_on: str
    tested_on: str
    scorer: str
    passage: PassageKind
    risk: float
    delta: float
    policies: tuple[Policy, ...]
    result: Result

    def markdown(self) -> str:
        """As a line of the table."""
        found, got = self.result.pooled_with_context, self.result.retrieved
        rates = (
            got.passed,
            found.unsafe_without,
            found.unsafe_with,
            found.right_stopped,
            got.false_abstention,
            self.result.false_abstention,
        )
        where = f"{self.fitted_on} | {self.tested_on}"
        return (
            f"| {self.passage.value} | {self.scorer} | {self.risk:g} | {where} | "
            f"{' | '.join(map(shown, rates))} |"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        promises = [policy.guarantee for policy in self.policies]
        return {
            "fitted_on": self.fitted_on,
            "tested_on": self.tested_on,
            "scorer": self.scorer,
            "passage": self.passage.value,
            "risk": self.risk,
            "delta": self.delta,
            "policies": len(self.policies),
            "certified": sum(one is not None and one.certified for one in promises),
            "thresholds": [policy.relevance_threshold for policy in self.policies],
            "result": self.result.to_dict(),
        }


def read_domain(path: Path, runs: Path, kind: PassageKind, judges: Judges) -> Domain:
    """A document with its runs, and a run of the out-of-knowledge-base suite over it.

    Raises:
        InputError: the document or its runs cannot be used.
    """
    document = read_document(path, kind)
    found, _ = read_runs(runs, document)
    with TemporaryDirectory() as folder:
        run_suite(
            MEASURE,
            MEASURE.settings(questions=path, passage=kind, top_k=TOP),
            Path(folder) / "run",
            [Instruments(judges.scorer, judges.encoder)],
        )
        records = CalibrationSet.of_run(Path(folder) / "run").records
    return Domain(document, tuple(found), tuple(records))


def fitted(
    records: Sequence[CalibrationRecord], judges: Judges, risk: float, delta: float
) -> Policy:
    """The policy that `knowgate calibrate` fits on these records."""
    fingerprint = judges.scorer.fingerprint
    binding = PolicyBinding(scorer=fingerprint, aggregator=default_aggregator(fingerprint.kind))
    return fit_policy(records, Leak(risk), delta=delta, binding=binding).policy


def halves(
    domain: Domain, judges: Judges, risk: float, delta: float, splits: int
) -> Iterator[tuple[Policy, frozenset[str]]]:
    """Policies fitted on halves, each with the questions of the other half."""
    for seed in range(splits):
        parts = CalibrationRecord.split(domain.records, share=0.5, seed=seed)
        for fit_on, test in (parts, parts[::-1]):
            policy = fitted(fit_on, judges, risk, delta)
            yield policy, frozenset(one.question_id for one in test)


def rows(
    domains: Sequence[Domain], judges: Judges, name: str, kind: PassageKind, given: Any
) -> Iterator[Row]:
    """All lines of one scorer and one kind of passage."""
    for risk in given.risks:
        for tested in domains:
            for fit_on in domains:
                if fit_on is tested:
                    policies = list(halves(tested, judges, risk, given.delta, given.splits))
                else:
                    policy = fitted(fit_on.records, judges, risk, given.delta)
                    policies = [(policy, frozenset(tested.document.questions))]
                parts = [
                    Part(Asked(policy, judges, tested.document), questions)
                    for policy, questions in policies
                ]
                source = fit_on.document.name
                yield Row(
                    f"{source}, other half" if fit_on is tested else source,
                    tested.document.name,
                    name,
                    kind,
                    risk,
                    given.delta,
                    tuple(policy for policy, _ in policies),
                    measured(tested.runs, parts),
                )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=Path, nargs="+", required=True, help="two or more")
    parser.add_argument("--runs", type=Path, required=True, help="folder of logged replies")
    parser.add_argument("--risks", type=float, nargs="+", default=[0.1, 0.2])
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--scorers", nargs="+", default=["sufficiency", "bi_encoder"])
    parser.add_argument(
        "--passages",
        nargs="+",
        choices=[PassageKind.QUESTION_ANSWER.value, PassageKind.ANSWER.value],
        default=[PassageKind.QUESTION_ANSWER.value, PassageKind.ANSWER.value],
    )
    parser.add_argument("--splits", type=int, default=10, help="into halves, within one domain")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    found = parser.parse_args()
    if not all(0 < share < 1 for share in (*found.risks, found.delta)):
        parser.error("--risks and --delta must lie between 0 and 1")
    if found.splits < 1:
        parser.error("--splits must be at least 1")
    return found


def run(given: argparse.Namespace) -> None:
    """Measure, print the table and write what was asked for."""
    for path in given.questions:  # before anything is printed
        read_runs(given.runs, read_document(path, PassageKind(given.passages[0])))
    import torch

    torch.set_num_threads(1)
    found: list[Row] = []
    print(HEAD, flush=True)
    for name in given.scorers:
        judges = judges_of(load_scorer(name))
        for kind in map(PassageKind, given.passages):
            domains = [read_domain(path, given.runs, kind, judges) for path in given.questions]
            for row in rows(domains, judges, name, kind, given):
                found.append(row)
                print(row.markdown(), flush=True)
    if given.markdown is not None:
        write_text(given.markdown, "\n".join([HEAD, *(row.markdown() for row in found)]) + "\n")
    if given.json is not None:
        write_json(given.json, [row.to_dict() for row in found])


def main() -> None:
    """Run; an input error is one line and exit code 2."""
    try:
        run(arguments())
    except KnowgateError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
