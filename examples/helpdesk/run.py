"""From a chain to a calibrated guard: measure, calibrate, ask, report.

    python -m examples.helpdesk.run [FOLDER]

Thirty questions are answered by the pages, thirty others ask for what they nearly say. The
confusion table counts both, with the default guard and with the calibrated one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from examples.helpdesk.app import build, retriever
from knowgate import Guard, GuardedRAG, Route
from knowgate.offline_eval.policies import calibrate_chain

HERE = Path(__file__).parent


def read(name: str) -> list[str]:
    """Return the questions of a file."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["question"] for line in lines]


def passed(chain: GuardedRAG, questions: list[str]) -> int:
    """Count the questions that the guard lets through."""
    answers = chain.batch(questions)
    return sum(one.decision.route is Route.FOLLOW_CONTEXT for one in answers)


def table(name: str, chain: GuardedRAG) -> int:
    """Print the confusion table of a guard; return how many of sixty it routed rightly."""
    answerable, missing = read("questions.jsonl"), read("near_misses.jsonl")
    good, bad = passed(chain, answerable), passed(chain, missing)
    right = good + len(missing) - bad
    print(f"{name:12} answered  abstained")
    print(f"  answerable {good:8} {len(answerable) - good:10}")
    print(f"  missing    {bad:8} {len(missing) - bad:10}    right: {right} of 60")
    return right


def main(folder: str = "helpdesk-run") -> tuple[int, int]:
    """Run all steps; return how many of sixty each guard routed rightly."""
    search = retriever()
    before = table("default", build(Guard.default(), search))
    found = calibrate_chain(search, HERE / "questions.jsonl", risk=0.2, out=folder)
    print(found.policy.guarantee.statement if found.policy.guarantee else found.policy.note)
    after = table("calibrated", build(Guard.load(found.policy), search))
    print(f"report: knowgate report {folder}")
    return before, after


if __name__ == "__main__":
    main(*sys.argv[1:])
