"""What the templates show: words and tables, no arithmetic left to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...report import SPACE as _SPACE
from ...report import counted, decimal, exact_percent, flat, one_line, percent, questions
from ...run import InputFile, OokbRun
from ._signals_summary import (
    Case,
    Estimate,
    OokbSummary,
    PolicySummary,
    ShownCase,
    least_relevant_found,
    most_relevant_left_out,
)


def interval_words(estimate: Estimate) -> str:
    """The estimate's interval as words, `–` where it is undefined."""
    if estimate.low is None or estimate.high is None:
        return "–"
    return f"{percent(estimate.low)} to {percent(estimate.high)}"


def estimate_words(estimate: Estimate) -> str:
    """Value and interval in brackets, for the middle of a sentence."""
    if estimate.value is None:
        return "not measured"
    return f"{percent(estimate.value)}, 95{_SPACE}% interval {interval_words(estimate)}"


def headline(summary: OokbSummary) -> list[str]:
    """The sentences that say it all, the most important one first."""
    if summary.errors == summary.cases:
        cases = counted(summary.cases, "case", "cases")
        return [f"Nothing could be measured: all {cases} of this run ended in an error."]
    if summary.policy is None:
        return [_ranking(summary), _how_to_calibrate()]
    lines = [_declined(summary), _wrongly_declined(summary), _missed(summary)]
    if summary.policy.threshold is None:
        lines.insert(0, _nothing_passes(summary.policy))
    return [line for line in lines if line]


def _nothing_passes(policy: PolicySummary) -> str:
    declines = "declines every question"
    if policy.memory_threshold is not None:
        declines = "answers from memory alone, or declines"
    if policy.guarantee is not None and not policy.guarantee["certified"]:
        return f"No threshold met the target, so this policy {declines}."
    return f"This policy lets no context pass, so it {declines}."


def _ranking(summary: OokbSummary) -> str:
    auroc = summary.auroc
    if auroc.value is None:
        return "Too few cases could be measured to say how well relevance tells them apart."
    interval = f"95{_SPACE}% interval {decimal(auroc.low)} to {decimal(auroc.high)}"
    return (
        "Relevance was higher with the answer in the knowledge base than with the answer taken "
        f"out in {percent(auroc.value)} of all pairs of cases, ties counted half "
        f"(AUROC {decimal(auroc.value)}, {interval}, {questions(auroc.n)})."
    )


def _how_to_calibrate() -> str:
    return (
        "There is no threshold yet, hence no abstention rate: 'knowgate calibrate' chooses one "
        "on half of the questions and leaves the other half for this report."
    )


def _declined(summary: OokbSummary) -> str:
    left_out = summary.left_out
    if left_out.abstained is None or not left_out.tested:
        return "No held-out question with its answer taken out could be measured."
    return (
        f"Of {questions(left_out.tested)} whose answer had been taken out of the knowledge base, "
        f"the guard declined {left_out.abstained} ({estimate_words(left_out.abstention_rate)})."
    )


def _wrongly_declined(summary: OokbSummary) -> str:
    in_kb = summary.in_kb
    if in_kb.abstained is None or not in_kb.tested:
        return "No held-out question with its answer retrieved could be measured."
    return (
        f"Of {questions(in_kb.tested)} whose answer was in the knowledge base and was retrieved, "
        f"it declined {in_kb.abstained} without need "
        f"({estimate_words(in_kb.false_abstention_rate)})."
    )


def _missed(summary: OokbSummary) -> str:
    in_kb = summary.in_kb
    if not in_kb.retrieval_misses:
        return ""
    return (
        f"For {in_kb.retrieval_misses} of {questions(in_kb.retrieval_miss_rate.n)} the retriever "
        "did not find the passage that holds the answer; no guard can fix that, so these "
        "are counted apart."
    )


def warnings(summary: OokbSummary) -> list[str]:
    """What a reader must know before trusting the numbers; often nothing."""
    lines: list[str] = []
    if summary.cases < summary.cases_planned:
        lines.append(
            f"The run is incomplete: {summary.cases} of {summary.cases_planned} cases are there. "
            "Start the same 'knowgate eval ookb' again: it goes on where it stopped."
        )
    if summary.errors:
        kinds = ", ".join(f"{name}: {count}" for name, count in summary.errors_by_type.items())
        lines.append(
            f"{counted(summary.errors, 'case', 'cases')} of {summary.cases} ended in an error and "
            f"count in no rate ({kinds})."
        )
    if summary.passages < summary.questions:
        lines.append(
            f"{questions(summary.questions)} have their answers in "
            f"{counted(summary.passages, 'passage', 'passages')}. Questions on one passage tend "
            "to go alike, and the intervals take each for independent: read them as too narrow. "
            "The certificate counts each passage once."
        )
    policy = summary.policy
    if policy is not None and policy.measures_more:
        lines.append(
            "The policy also asks for confidence or conflict. This suite measures relevance "
            "alone: “declined” means that the context did not pass."
        )
    if policy is not None and policy.guarantee is not None and not policy.guarantee["certified"]:
        lines.append("Nothing is certified: " + policy.words)
    tested = summary.left_out.tested
    if policy is not None and 0 < tested < 30:
        lines.append(
            f"Only {questions(tested)} held out: mind the width of the intervals before "
            "comparing two runs."
        )
    return lines


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
