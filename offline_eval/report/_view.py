"""What the templates show: words and tables, no arithmetic left to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ookb import InputFile, OokbRun
from ._cases import Case
from ._escaping import one_line
from ._numbers import decimal, exact_percent, flat, percent, questions
from ._summary import Estimate, OokbSummary
from ._words import headline, interval_words, warnings
from ._worst import ShownCase, least_relevant_found, most_relevant_left_out


@dataclass(frozen=True, slots=True)
class RateLine:
    """A line of the table of rates."""

    name: str
    value: str
    interval: str
    n: int
    meaning: str


@dataclass(frozen=True, slots=True)
class PolicyView:
    """The policy in words.

    Attributes:
        threshold: of relevance.
        memory: from which confidence it answers from memory; empty where it never does.
        words: the promise.
        certified: None for a policy written by hand.
        guarantee: name and value pairs.
    """

    threshold: str
    memory: str
    words: str
    certified: bool | None
    guarantee: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that both templates show.

    Attributes:
        title: names the inputs.
        subtitle: what was run, in one line.
        headline: sentences, the most important one first.
        warnings: what to know before trusting the numbers.
        rates: the table.
        policy: None without calibration.
        worst_left_out: most relevant left-out cases.
        worst_found: least relevant in-KB cases.
        settings: flat name and value pairs.
        inputs: with hashes.
        versions: programs that wrote run and report.
    """

    title: str
    subtitle: str
    headline: tuple[str, ...]
    warnings: tuple[str, ...]
    rates: tuple[RateLine, ...]
    policy: PolicyView | None
    worst_left_out: tuple[ShownCase, ...]
    worst_found: tuple[ShownCase, ...]
    settings: tuple[tuple[str, str], ...]
    inputs: tuple[InputFile, ...]
    versions: tuple[tuple[str, str], ...]


def report_view(run: OokbRun, cases: Sequence[Case], summary: OokbSummary) -> ReportView:
    """The view of a summarised run."""
    names = ", ".join(one_line(file.name) for file in summary.inputs)
    settings = run.manifest.settings
    passage = {
        "answer": "answers only",
        "question_answer": "questions with answers",
        "passage": "as given",
    }
    return ReportView(
        title=f"Out-of-knowledge-base report: {names}" if names else "Out-of-knowledge-base report",
        subtitle=(
            f"{questions(summary.questions)}, {summary.cases} cases · retrieval "
            f"{one_line(settings.retrieval)}, top {settings.top_k} · passages: "
            f"{passage.get(settings.passage, one_line(settings.passage))} · scorer "
            f"{one_line(settings.scorer.kind)}"
        ),
        headline=tuple(headline(summary)),
        warnings=tuple(one_line(line) for line in warnings(summary)),
        rates=_rates(summary),
        policy=_policy(summary),
        worst_left_out=tuple(most_relevant_left_out(cases, run.questions)),
        worst_found=tuple(least_relevant_found(cases, run.questions)),
        settings=tuple(flat("", summary.settings)),
        inputs=summary.inputs,
        versions=(
            ("run written by", one_line(summary.run_created_by) or "–"),
            ("report written by", summary.created_by),
        ),
    )


def _rates(summary: OokbSummary) -> tuple[RateLine, ...]:
    left_out, in_kb = summary.left_out, summary.in_kb
    return (
        _rate(
            "Abstention, answer taken out",
            left_out.abstention_rate,
            "Declined, and nothing in the knowledge base answers it: right. Held-out "
            "questions. Higher is better.",
        ),
        _rate(
            "False abstention, answer retrieved",
            in_kb.false_abstention_rate,
            "Declined although the answer was among the passages: wrong. Held-out questions. "
            "Lower is better.",
        ),
        _rate(
            "Retrieval misses",
            in_kb.retrieval_miss_rate,
            "The answer was in the knowledge base and was not retrieved. A matter of the "
            "retriever, counted apart. All questions.",
        ),
        _area(
            "AUROC",
            summary.auroc,
            "Chance that relevance is higher for a case with the answer in the knowledge base "
            "than for one without. 0.5 is a coin, 1 is perfect. All questions.",
        ),
        _area(
            "AUROC without retrieval misses", summary.auroc_found_only, "The same, misses aside."
        ),
    )


def _rate(name: str, estimate: Estimate, meaning: str) -> RateLine:
    value = "–" if estimate.value is None else percent(estimate.value)
    return RateLine(name, value, interval_words(estimate), estimate.n, _meaning(estimate, meaning))


def _area(name: str, estimate: Estimate, meaning: str) -> RateLine:
    interval = "–"
    if estimate.low is not None:
        interval = f"{decimal(estimate.low)} to {decimal(estimate.high)}"
    return RateLine(
        name, decimal(estimate.value), interval, estimate.n, _meaning(estimate, meaning)
    )


def _meaning(estimate: Estimate, meaning: str) -> str:
    return f"{meaning} Not measured: {estimate.note}." if estimate.note else meaning


def _policy(summary: OokbSummary) -> PolicyView | None:
    policy = summary.policy
    if policy is None:
        return None
    threshold = "nothing passes" if policy.threshold is None else decimal(policy.threshold)
    facts: list[tuple[str, str]] = [
        ("questions it was calibrated on", str(policy.calibration_questions)),
        ("questions held out for this report", str(policy.test_questions)),
    ]
    certified = None
    if policy.guarantee is not None:
        certified = bool(policy.guarantee["certified"])
        facts = [
            ("what counts as an error", one_line(policy.guarantee["loss"])),
            ("bound asked for (α)", exact_percent(policy.guarantee["risk"])),
            ("chance that the bound fails (δ)", exact_percent(policy.guarantee["delta"])),
            (
                "errors in calibration",
                f"{policy.guarantee['errors']} of {questions(policy.guarantee['n'])}",
            ),
            *facts,
        ]
    memory = policy.memory_threshold
    return PolicyView(
        threshold=threshold,
        memory="" if memory is None else f"{memory} (declared, not certified, not measured here)",
        words=one_line(policy.words),
        certified=certified,
        guarantee=tuple(facts),
    )
