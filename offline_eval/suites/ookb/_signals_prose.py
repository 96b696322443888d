"""The sentences that open the report of relevance signals."""

from __future__ import annotations

from collections.abc import Sequence

from ...data import QuestionRecord
from ...report import counted, decimal, estimate_text, percent
from ...run import MeasuredRun
from ._signals_summary import Case, OokbSummary, PolicySummary

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
    note = QuestionRecord.note_on_makers(summary.made_by, summary.questions)
    made, refused = [note] if note else [], _refused(summary)
    if summary.policy is None:
        rest = [] if refused else [_how_to_calibrate()]
        return [*refused, _ranking(summary), *made, *rest]
    lines = [
        *made,
        _abstained_from_own(summary),
        _abstained(summary),
        _falsely_abstained(summary),
        _missed(summary),
    ]
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


def _abstained_from_own(summary: OokbSummary) -> str:
    own = summary.unanswerable
    if own is None or own.abstained is None or not own.tested:
        return ""
    return (
        f"Of {counted(own.tested, 'question')} of your own that nothing answers, the guard "
        f"abstained from {own.abstained} ({estimate_text(own.abstention_rate, brackets=False)})."
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
    lines += _shared_evidence(summary)
    return lines + _policy_warnings(summary)


_UNITS = {"source": "passage", "page": "page", "topic": "topic"}


def _shared_evidence(summary: OokbSummary) -> list[str]:
    lines = []
    if summary.unmatched:
        lines.append(
            f"{counted(summary.unmatched, 'question')} name a source that no document has, and "
            "count in no rate: see `error` in rows.jsonl."
        )
    if summary.duplicates:
        apart = f", yet {summary.duplicates_apart} of them count, naming another source"
        lines.append(
            f"{counted(summary.duplicates, 'question')} repeat an earlier one word for word, "
            f"which is no further evidence{apart if summary.duplicates_apart else ''}."
        )
    unknown = 0 if summary.served is None else summary.served.sources_found_by.get("unknown", 0)
    known = summary.questions - unknown - summary.unmatched
    if summary.passages < known:
        unit = _UNITS[summary.leave_out]
        lines.append(
            f"{counted(known, 'question')} have their answers in "
            f"{counted(summary.passages, unit)}. Questions on one {unit} tend to have the "
            "same outcome, and the intervals take each for independent, so they are too narrow. "
            f"The certificate takes {unit}s for independent, not their questions."
        )
    return lines


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
            "question pass is right, and counts as a leak until it is reviewed ('knowgate review' "
            "on this run folder)."
        )
    return lines


def review_prose(summary: OokbSummary, cases: Sequence[Case]) -> list[str]:
    """Write what was reviewed, and the command where a review may show that a leak is none."""
    lines, found = [], summary.reviews
    if found is not None:
        lines.append(
            f"Reviewed: {found.reviewed} of {counted(summary.left_out.cases, 'case')}. Answered by "
            f"another passage, so counted in no rate: {found.answered}; not answered: "
            f"{found.not_answered}; unsure, counted as not answered: {found.unsure}."
        )
    left = [case for case in cases if case.left_out and case.review is None]
    leaks = sum(case.passes is True for case in left)
    if summary.policy is not None and leaks:
        lines.append(
            f"{counted(leaks, 'leak')} {'was' if leaks == 1 else 'were'} not reviewed. Next: "
            "'knowgate review' on this run folder, and then 'knowgate calibrate' again."
        )
    elif summary.policy is None and left:
        lines.append("'knowgate review' on this run folder shows them one by one, and asks.")
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


_MANY_MISSES = 0.1


def next_steps(summary: OokbSummary) -> list[tuple[str, str]]:
    """List what to do after reading, the most urgent first."""
    found = {} if summary.served is None else summary.served.sources_found_by
    if summary.errors == summary.cases:
        return [("Find out what failed", _MEASURE_AGAIN)]
    if set(found) == {"unknown"}:
        return [("Watch for drift", "'knowgate drift --run' compares such runs with a policy's.")]
    steps = []
    if summary.errors or summary.cases < summary.cases_planned:
        steps.append(("Complete the run", _MEASURE_AGAIN))
    misses = summary.in_kb.retrieval_miss_rate.value
    if misses is not None and misses > _MANY_MISSES:
        steps.append(
            (
                "Look at retrieval first",
                f"{percent(misses)} of the answers were not retrieved, and no guard can fix that: "
                "try more passages (--top-k), other chunks or another retriever.",
            )
        )
    steps += _after_calibration(summary.policy)
    read = "'knowgate view' on this run shows every case, with its passages."
    if summary.policy is not None and summary.left_out.abstained != summary.left_out.tested:
        read += (
            " Where a question whose answer was left out is let through, see whether another "
            "passage answers it after all: then it is no leak."
        )
    return [*steps, ("Read single cases", read)]


_MEASURE_AGAIN = "The same 'knowgate measure' again, with --retry-failed, asks for what is missing."


def _after_calibration(policy: PolicySummary | None) -> list[tuple[str, str]]:
    """Say what follows from what is promised."""
    if policy is None:
        return [
            (
                "Calibrate",
                "'knowgate calibrate' on this run chooses a threshold with a guarantee; "
                "'knowgate plan' says beforehand what so many questions can certify. Then report "
                "again.",
            )
        ]
    if policy.threshold is None:
        return [
            (
                "Make something pass",
                "Accept a higher risk (--risk), measure more questions ('knowgate plan' says how "
                "many), or take another scorer ('knowgate compare-scorers').",
            )
        ]
    if policy.guarantee is None or not policy.guarantee["certified"]:
        return [
            (
                "Get a guarantee",
                "The threshold was chosen without one: 'knowgate plan' says how many questions "
                "certify it, 'knowgate calibrate' does.",
            )
        ]
    return [
        (
            "Try it without acting",
            "Serve the policy with GuardOptions(mode=\"shadow\") or 'knowgate serve --shadow', and "
            "read 'knowgate shadow-report' after some days.",
        ),
        (
            "Keep the promise true",
            "'knowgate drift' compares live questions with these; 'knowgate recalibrate' renews "
            "the policy when questions or documents change.",
        ),
    ]
