"""Numbers in plain words, and the sentences that open a report."""

from __future__ import annotations

from ._numbers import SPACE as _SPACE
from ._numbers import counted, decimal, percent, questions
from ._summary import Estimate, OokbSummary, PolicySummary


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
        "did not find the passage that holds the answer; no guard can mend that, so these "
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
