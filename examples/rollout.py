"""Shadow, compare, enforce: `python examples/rollout.py [FOLDER]`, offline and in seconds."""

from __future__ import annotations

import sys
import tempfile

from knowgate.guard import DecisionLog, Guard, GuardOptions, Policy
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.policies import shadow_report

HANDBOOK = ["The library is open from nine.", "The cost of a lost reader card is four euros."]
QUESTIONS = [
    "From when is the library open?",
    "What is the cost of a lost reader card?",
    "Who painted the ceiling?",
    "Is there a garden?",
]


def main(folder: str) -> None:
    """Log decisions that change nothing, and say what enforcing them would have changed."""
    scorer = LexicalScorer()
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.4)  # Policy.load, once fitted
    log = DecisionLog(folder, text=True)  # without text=True, no line holds a question
    guard = Guard(policy, scorer=scorer, options=GuardOptions(mode="shadow"), observers=[log])
    for question in QUESTIONS:
        guard.decide(question, HANDBOOK)  # users still get the answer of the chain without a guard
    log.close()

    report = shadow_report([folder])  # knowgate shadow-report FOLDER --out report
    print("\n".join(report.headline))
    for reason, share in report.values["reasons"].items():
        print(f"  {reason}: {share['value']:.0%}")
    for problem in report.values["problems"]:  # this policy was never calibrated, for one
        print(f"not yet: {problem}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
