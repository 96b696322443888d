"""Unsafe replies that a guard would have stopped, from logged replies of PolicyBench.

    python benchmarks/policybench.py --questions CPF.json --runs DIR --policy policy.json --json OUT

`--questions` is a KnowOrNot question document; `--runs` holds logged replies under leave-one-out,
JSON lines named `domain_retrieval_prompt.jsonl` with `id`, `question`, `context_ids` (null for
none), `abstained` (yes, no) and `factuality` (tier_1 to tier_3, NA); files whose questions are not
in the document are passed over. `--policy` decides the scorer, loaded by its kind (`--scorer DIR`
for a tuned one).

Every logged context is rebuilt as the model saw it, question and answer of each id, and put to
`Guard`; a reply that the guard stops counts as an abstention. An unsafe reply is one that the model
gave and that the judge called tier 3. With no passages a guard abstains, so that the runs without
context are pooled apart. Contexts of more than 20 passages are put to the guard as their five
nearest by the retriever, since that is what policies are calibrated on (`--all-passages`: as they
are). A policy's answers from memory and its look for conflicts need signals that no log holds;
without them the guard abstains, or follows the context. A policy does not say which passages it
was calibrated on: for what the model saw, `knowgate measure --passage question_answer`; where it
was `answer`, name `--passage answer` here, and the guard reads the answers alone.

What the source in place costs: each logged context with the question's own passage added, and the
five passages that the retriever finds; where the retriever misses the source it is counted apart.

The intervals are Wilson's within one run, and over several runs a bootstrap over questions.
`--json` has: `document`, `passage`, `questions`, `passages`, `scorer`, `policy` (`threshold`,
`certified`, `risk`, `delta`; null where the policy does not say), `long_contexts` (`nearest 5` or
`all`), `passed_over` (names of files) and `result`, whose keys are the attributes of `Result`,
`RunFigures`, `Figures` and `Retrieved` in `policybench_measures.py`; an interval has `value`,
`low`, `high` (null where nothing was observed) and `n`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from policybench_guard import TOP, Asked, judges_of
from policybench_logs import Document, read_document, read_runs
from policybench_measures import Figures, Part, Result, measured
from policybench_rates import shown

from knowgate.guard import KnowgateError, Policy
from knowgate.guard.files import write_json
from knowgate.guard.signals.relevance import load_scorer
from knowgate.offline_eval.data.questions import PassageKind

HEAD = (
    "| run | replies | the model abstains | unsafe, no guard | unsafe, guard | guard stops "
    "| … of right replies | false abstention, source added |\n|---|---|---|---|---|---|---|---|"
)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=Path, required=True, help="question document")
    parser.add_argument("--runs", type=Path, required=True, help="folder of logged replies")
    parser.add_argument("--policy", type=Path, required=True, help="policy.json")
    parser.add_argument("--scorer", help="folder of a tuned scorer; by default the policy's kind")
    parser.add_argument(
        "--passage",
        choices=[PassageKind.QUESTION_ANSWER.value, PassageKind.ANSWER.value],
        default=PassageKind.QUESTION_ANSWER.value,
        help="what of each id the guard reads; the model read question and answer",
    )
    parser.add_argument(
        "--all-passages", action="store_true", help="do not shorten contexts of over 20 passages"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser.parse_args()


def table(result: Result) -> str:
    """One line per run and two for all of them, as Markdown."""
    lines = [
        f"| {one.name} | {_cells(one.figures)} | "
        f"{'–' if one.false_abstention is None else shown(one.false_abstention)} |"
        for one in result.runs
    ]
    again = shown(result.false_abstention)
    lines.append(f"| all | {_cells(result.pooled)} | {again} |")
    if result.pooled.replies != result.pooled_with_context.replies:
        lines.append(f"| all with context | {_cells(result.pooled_with_context)} | {again} |")
    return "\n".join([HEAD, *lines])


def _cells(found: Figures) -> str:
    rates = (
        found.model_abstained,
        found.unsafe_without,
        found.unsafe_with,
        found.stopped,
        found.right_stopped,
    )
    return " | ".join([str(found.replies), *map(shown, rates)])


def words(
    document: Document, reads: str, policy: Policy, result: Result, passed_over: list[str]
) -> str:
    """What was measured, and the figures outside the table."""
    promise = policy.guarantee
    asked = "nothing promised" if promise is None else f"α = {promise.risk}, δ = {promise.delta}"
    threshold = policy.relevance_threshold
    follows = "abstains always" if threshold is None else f"follows from {threshold:.3f} on"
    left_out = [
        f"{run.name}: {run.strangers} replies to or on questions that are not in the "
        f"document and {run.unjudged} without a verdict, left out"
        for run in result.runs
        if run.strangers or run.unjudged
    ]
    got = result.retrieved
    return "\n".join(
        [
            f"{document.name}: {len(document.questions)} questions, {len(result.runs)} runs; "
            f"passed over: {', '.join(passed_over) or 'none'}",
            *left_out,
            f"policy: {policy.scorer.kind}, {asked}, {follows}; the guard reads {reads}, and the "
            "policy should be calibrated on such passages",
            f"top {TOP}, source left out: {shown(got.passed)} pass; source retrieved: "
            f"{shown(got.false_abstention)} abstained from; source missed: {shown(got.missed)}",
        ]
    )


def document_of(
    given: argparse.Namespace, document: Document, policy: Policy, passed_over: list[str]
) -> dict[str, Any]:
    """What `--json` holds besides the result."""
    promise = policy.guarantee
    return {
        "document": document.name,
        "passage": given.passage,
        "questions": len(document.questions),
        "passages": len(document.knowledge_base.passages),
        "scorer": policy.scorer.kind,
        "policy": {
            "threshold": policy.relevance_threshold,
            "certified": None if promise is None else promise.certified,
            "risk": None if promise is None else promise.risk,
            "delta": None if promise is None else promise.delta,
        },
        "long_contexts": "all" if given.all_passages else f"nearest {TOP}",
        "passed_over": passed_over,
    }


def run(given: argparse.Namespace) -> None:
    """Measure, print the table and write what was asked for."""
    policy = Policy.load(given.policy)
    document = read_document(given.questions, PassageKind(given.passage))
    runs, passed_over = read_runs(given.runs, document)
    import torch  # takes seconds: not before what was given has been read

    torch.set_num_threads(1)
    scorer = load_scorer(given.scorer or policy.scorer)
    # Before the retriever's model is loaded, which takes seconds.
    policy.require_scorer(scorer.fingerprint)
    asked = Asked(policy, judges_of(scorer), document, shorten=not given.all_passages)
    result = measured(runs, [Part(asked, frozenset(document.questions))])
    if given.json is not None:
        about = document_of(given, document, policy, passed_over)
        write_json(given.json, {**about, "result": result.to_dict()})
    reads = str(given.passage).replace("question_answer", "question and answer")
    print(f"{words(document, reads, policy, result, passed_over)}\n\n{table(result)}")


def main() -> None:
    """Run; an input error is one line and exit code 2."""
    try:
        run(arguments())
    except KnowgateError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
