"""The sentences that open the report of relevance signals."""

from __future__ import annotations

from ...report import counted, decimal, estimate_text, percent
from ...run import MeasuredRun
from ._signals_summary import OokbSummary, PolicySummary

_FEW = 30


def counted_questions(run: MeasuredRun) -> str:
    """Say which questions the rates and what goes with them are about."""
    calibration = run.calibration
    if calibration is not None and calibration.given_policy:
        return (
            "All measured questions, under a given policy (the rates are too good if it was "
            "calibrated on them)"
        )
    return "All measured questions" if calibration is None else "Held-out questions"


def headline(summary: OokbSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    if summary.errors == summary.cases:
        cases = counted(summary.cases, "case")
        return [f"Nothing could be measured: all {cases} of this run ended in an error."]
    found = {} if summary.served is None else summary.served.sources_found_by
    if set(found) == {"unknown"}:
        return [
            f"{counted(found['unknown'], 'question')} of a live log were measured. Nothing is "
            "known of where their answers are, so nothing can be said about leak or false "
            "abstention: such a run serves to watch for drift, and not to calibrate on."
        ]
    refused = _refused(summary)
    if summary.policy is None:
        return [*refused, _ranking(summary), *([] if refused else [_how_to_calibrate()])]
    lines = [_abstained(summary), _falsely_abstained(summary), _missed(summary)]
    if summary.policy.guarantee is None:
        lines.insert(0, summary.policy.words)
    if summary.policy.threshold is None:
        lines.insert(0, _nothing_passes(summary.policy))
    return [*refused, *(line for line in lines if line)]


def _refused(summary: OokbSummary) -> list[str]:
    """Why the latest calibration wrote no policy, and the first thing that would work."""
    refusal = summary.refusal
    if refusal is None:
        return []
    lines = [f"Refused: {problem}" for problem in refusal.problems]
    lines += [f"Next: {advice}." for advice in refusal.advice[:1]]
    if summary.policy is not None:
        lines.append("The figures are those of the policy before, which was written.")
    return lines


def _nothing_passes(policy: PolicySummary) -> str:
    abstains = "abstains from every question"
    if policy.memory_threshold is not None:
        abstains = "answers from memory alone, or abstains"
    if policy.guarantee is not None and not policy.guarantee["certified"]:
        return f"No threshold met the target, so this policy {abstains}."
    return f"This policy lets no context pass, so it {abstains}."


def _ranking(summary: OokbSummary) -> str:
    auroc = summary.auroc
    if auroc.value is None:
        return "Too few cases could be measured to say how well relevance tells them apart."
    return (
        "Relevance was higher with the answer in the knowledge base than with the answer left "
        f"out in {percent(auroc.value)} of all pairs of cases, ties counted half "
        f"(AUROC {estimate_text(auroc, decimal, brackets=False)}, "
        f"{counted(auroc.n, 'question')})."
    )


def _how_to_calibrate() -> str:
    return "There is no threshold yet, hence no abstention rate: 'knowgate calibrate' chooses one."


def _abstained(summary: OokbSummary) -> str:
    left_out = summary.left_out
    if left_out.abstained is None or not left_out.tested:
        return "No question with its answer left out could be measured."
    return (
        f"Of {counted(left_out.tested, 'question')} whose answer had been left out of the "
        f"knowledge base, the guard abstained from {left_out.abstained} "
        f"({estimate_text(left_out.abstention_rate, brackets=False)})."
    )


def _falsely_abstained(summary: OokbSummary) -> str:
    in_kb = summary.in_kb
    if in_kb.abstained is None or not in_kb.tested:
        return "No question with its answer retrieved could be measured."
    return (
        f"Of {counted(in_kb.tested, 'question')} whose answer was in the knowledge base and was "
        f"retrieved, it falsely abstained from {in_kb.abstained} "
        f"({estimate_text(in_kb.false_abstention_rate, brackets=False)})."
    )


def _missed(summary: OokbSummary) -> str:
    in_kb = summary.in_kb
    if not in_kb.retrieval_misses:
        return ""
    return (
        f"For {in_kb.retrieval_misses} of {counted(in_kb.retrieval_miss_rate.n, 'question')} the "
        "retriever did not find the passage that holds the answer; no guard can fix that, so "
        "these are counted apart."
    )


def warnings(summary: OokbSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    lines: list[str] = []
    if summary.cases < summary.cases_planned:
        lines.append(
            f"The run is incomplete: {summary.cases} of {summary.cases_planned} cases are there. "
            "Start the same 'knowgate measure' again to complete it."
        )
    if summary.errors:
        kinds = ", ".join(f"{name}: {count}" for name, count in summary.errors_by_type.items())
        lines.append(
            f"{counted(summary.errors, 'case')} of {summary.cases} ended in an error and "
            f"count in no rate ({kinds})."
        )
    lines += _of_served(summary)
    unknown = 0 if summary.served is None else summary.served.sources_found_by.get("unknown", 0)
    known = summary.questions - unknown
    if summary.passages < known:
        lines.append(
            f"{counted(known, 'question')} have their answers in "
            f"{counted(summary.passages, 'passage')}. Questions on one passage tend to have the "
            "same outcome, and the intervals take each for independent, so they are too narrow. "
            "The certificate takes passages for independent, not their questions."
        )
    return lines + _policy_warnings(summary)


_FOUND_BY = {
    "metadata": "by the source in the metadata",
    "passage": "by the passage that the question names",
    "answer": "by the answer standing in them, which is a guess",
    "unknown": "not at all; these count in no rate",
}


def _of_served(summary: OokbSummary) -> list[str]:
    """Write what holds for a run through a chain as it is served."""
    served = summary.served
    if served is None:
        return []
    lines = []
    found = served.sources_found_by
    if set(found) - {"metadata"}:
        parts = "; ".join(
            f"{found[name]} {text}" for name, text in _FOUND_BY.items() if name in found
        )
        lines.append(f"The documents that hold an answer were told from others: {parts}.")
    if served.short_contexts:
        lines.append(
            f"In {counted(served.short_contexts, 'case')} with the source left out there were "
            "fewer documents than are served, because the retriever could not be asked for more. "
            "Such cases are easier than real ones."
        )
    if served.answer_elsewhere:
        lines.append(
            f"In {counted(served.answer_elsewhere, 'case')} with the source left out a document "
            "still contains the whole answer. The knowledge base says it twice: letting such a "
            "question pass is right, and counts as a leak."
        )
    return lines


def _policy_warnings(summary: OokbSummary) -> list[str]:
    policy, tested = summary.policy, summary.left_out.tested
    if policy is None:
        return []
    lines = []
    if policy.measures_more:
        lines.append(
            "The policy also asks for confidence or conflict. This suite measures relevance "
            "alone: “abstained” means that the context did not pass."
        )
    if policy.guarantee is not None and not policy.guarantee["certified"]:
        lines.append("Nothing is certified: " + policy.words)
    if 0 < tested < _FEW:
        lines.append(
            f"The rates rest on {counted(tested, 'question')} only: consider the width of the "
            "intervals before comparing two runs."
        )
    return lines
