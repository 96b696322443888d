"""The report of a run of relevance signals: its sections.

run folder ─► read_measured_run ─► summarise ─► signals_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...data import QuestionRecord
from ...report import (
    Document,
    Facts,
    Figure,
    Figures,
    Prose,
    Section,
    counted,
    decimal,
    explained,
    percent,
)
from ...run import CaseKind, MeasuredRun
from ._signals_cases import least_relevant_found, most_relevant_missing
from ._signals_plots import signal_plots
from ._signals_prose import counted_questions, headline, next_steps, review_prose, warnings
from ._signals_summary import (
    Case,
    Estimate,
    OokbSummary,
    PolicySummary,
    measured_cases,
    summarise,
)
from ._signals_what_if import signals_what_if

_TITLE = "Out-of-knowledge-base report"
_PASSAGES = {
    "answer": "answers only",
    "question_answer": "questions with answers",
    "passage": "as given",
    "titled": "as given, below their titles",
    "chunk": "chunks as served",
}
_LEFT_OUT = {
    "source": "its own passage",
    "page": "the whole page of its answer",
    "topic": "everything on its topic (the page of its answer, and all pages with a passage much "
    "like it)",
}
_HOW_TO_READ = (
    "Each question was asked twice: once with the whole knowledge base, once with {left_out} "
    "left out, as if the answer had never been written down. A good guard lets the first pass and "
    "abstains from the second. The relevance of the retrieved passages decides; no language model "
    "took part.",
    "Two runs whose intervals overlap widely are not shown to differ.",
)
_NO_POLICY = (
    "There is no policy yet. 'knowgate calibrate' on this run folder fits one; then report again."
)


def signals_document(run: MeasuredRun) -> Document:
    """Make the report of a run."""
    cases = measured_cases(run)
    summary = summarise(run, cases)
    names = ", ".join(file.name for file in summary.inputs)
    settings = run.manifest.settings
    return Document(
        name="ookb",
        title=f"{_TITLE}: {names}" if names else _TITLE,
        subtitle=(
            f"{counted(summary.questions, 'question')}, {counted(summary.cases, 'case')} · "
            f"retrieval {settings.retrieval}, top {settings.top_k} · passages: "
            f"{_PASSAGES.get(settings.passage, settings.passage)} · left out: "
            f"{settings.leave_out} · scorer {settings.scorer.kind}"
        ),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(run, cases, summary),
        values=summary.to_dict(),
    )


def _sections(
    run: MeasuredRun, cases: Sequence[Case], summary: OokbSummary
) -> list[Section | None]:
    plots, texts = signal_plots(run, cases, summary), run.texts
    what_if = signals_what_if(run, cases)
    given = run.calibration is not None and run.calibration.given_policy
    return [
        Section("Results", (_figures(summary, counted_questions(run)),)),
        Section(
            "How to read this",
            (
                *(one.format(left_out=_LEFT_OUT[summary.leave_out]) for one in _HOW_TO_READ),
                Prose(explained("intervals", "abstention", "leak", "retrieval_miss"), small=True),
            ),
        ),
        _refusal(summary),
        Section("Scores and thresholds", tuple(plots)) if plots else None,
        Section("What if the threshold were another?", (what_if,)) if what_if else None,
        Section("The policy and its guarantee", _policy(summary.policy, given=given)),
        Section(
            "Cases worth reading",
            (
                Section(
                    "Answer left out, yet most relevant",
                    (
                        "Where the guard is most easily misled. If a passage shown here does "
                        "answer the question, the knowledge base holds the answer twice, and "
                        "letting it pass is right. It counts as a leak all the same until a "
                        "person says so in a review.",
                        *review_prose(summary, cases),
                        most_relevant_missing(cases, texts),
                    ),
                ),
                *_unanswerable_cases(run, texts),
                Section(
                    "Answer retrieved, yet least relevant",
                    (
                        "Where a false abstention is most likely. Often the passage answers in "
                        "words that share little with the question.",
                        least_relevant_found(cases, texts),
                    ),
                ),
            ),
            folded=True,
        ),
        replace(
            Section.of_run(summary.settings, summary.inputs, summary.run_created_by), folded=True
        ),
        Section.next_steps(next_steps(summary)),
    ]


def _unanswerable_cases(run: MeasuredRun, texts: Mapping[str, str]) -> Iterator[Section]:
    if run.unanswerable:
        yield Section(
            "Unanswerable, yet most relevant",
            (
                "Your own questions that nothing answers. If a passage shown here does answer the "
                "question, move it to the questions with answers.",
                most_relevant_missing(measured_cases(run, (CaseKind.UNANSWERABLE,)), texts),
            ),
        )


def _refusal(summary: OokbSummary) -> Section | None:
    if summary.refusal is None:
        return None
    return Section(
        "Refused: what would work",
        (
            "The latest calibration wrote no policy. Of the questions of this run:",
            Prose(summary.refusal.advice, bullets=True),
        ),
    )


def _figures(summary: OokbSummary, which: str) -> Figures:
    lines = _figure_lines(summary, which)
    return Figures(
        tuple(
            Figure(
                name,
                estimate,
                _meaning(estimate, meaning),
                decimal if name.startswith("AUROC") else percent,
            )
            for name, estimate, meaning in lines
        )
    )


_Line = tuple[str, Estimate, str]


def _figure_lines(summary: OokbSummary, which: str) -> tuple[_Line, ...]:
    left_out, in_kb = summary.left_out, summary.in_kb
    lines: tuple[_Line, ...] = (
        (
            "Abstention, answer left out",
            left_out.abstention_rate,
            "The guard abstained, and nothing in the knowledge base answers the question: right. "
            f"{which}. Higher is better.",
        ),
        (
            "False abstention, answer retrieved",
            in_kb.false_abstention_rate,
            "The guard abstained although the answer was among the passages: wrong. "
            f"{which}. Lower is better.",
        ),
        (
            "Retrieval misses",
            in_kb.retrieval_miss_rate,
            "The answer was in the knowledge base and was not retrieved. This depends on the "
            "retriever, and is counted apart. All questions.",
        ),
        (
            "AUROC",
            summary.auroc,
            "Chance that relevance is higher for a case with the answer in the knowledge base "
            "than for one without. 0.5 is a coin, 1 is perfect. All questions.",
        ),
        (
            "AUROC without retrieval misses",
            summary.auroc_found_only,
            "The same without retrieval misses.",
        ),
    )
    return _with_further(lines, summary, which)


def _with_further(lines: tuple[_Line, ...], summary: OokbSummary, which: str) -> tuple[_Line, ...]:
    """Add what only some runs have."""
    if summary.unanswerable is not None and summary.auroc_unanswerable is not None:
        lines = (
            (
                "Abstention, your unanswerable questions",
                summary.unanswerable.abstention_rate,
                "The guard abstained from questions that you know to be unanswerable: right. "
                f"{which}. Higher is better.",
            ),
            *lines,
            (
                "AUROC, your unanswerable questions",
                summary.auroc_unanswerable,
                "Chance that relevance is higher where the answer was retrieved than for a "
                "question that you know to be unanswerable.",
            ),
        )
    lines = (*lines, *_shared_words(summary))
    if summary.echo is not None:
        lines = (
            lines[0],
            (
                "Passes when a passage repeats the question",
                summary.echo.pass_rate,
                "Nothing in the knowledge base answers the question, and the question itself is "
                "the first passage: the guard should abstain. "
                f"{which}. Lower is better.",
            ),
            *lines[1:],
        )
    return lines


def _shared_words(summary: OokbSummary) -> list[tuple[str, Estimate, str]]:
    if summary.shared_words is None:
        return []
    share = Estimate(value=summary.shared_words, low=None, high=None, n=summary.questions)
    meaning = (
        "Content words of a question that its own passage holds. The more, the easier: questions "
        f"of people share {QuestionRecord.SHARED_BY_PEOPLE:.0%} on average. All questions."
    )
    return [("Words shared with the passage", share, meaning)]


def _meaning(estimate: Estimate, meaning: str) -> str:
    return f"{meaning} Not measured: {estimate.note}." if estimate.note else meaning


def _policy(policy: PolicySummary | None, *, given: bool) -> tuple[str | Facts | Section, ...]:
    if policy is None:
        return (_NO_POLICY,)
    limits = Prose(tuple(_limits(policy)), bullets=True)
    return (
        policy.words,
        Facts(tuple(_facts(policy, given=given))),
        Section("Not guaranteed", (limits,)),
    )


def _facts(policy: PolicySummary, *, given: bool) -> list[tuple[str, str]]:
    threshold = "nothing passes" if policy.threshold is None else decimal(policy.threshold)
    facts = [("a context passes from relevance", threshold)]
    if policy.memory_threshold is not None:
        memory = f"{policy.memory_threshold} (declared, not certified, not measured here)"
        facts.append(("without context, it answers from memory from confidence", memory))
    if policy.guarantee is not None:
        found = policy.guarantee
        facts += [
            ("what counts as an error", found["loss"]),
            ("bound asked for (α)", percent(found["risk"], exact=True)),
            ("chance that the bound fails (δ)", percent(found["delta"], exact=True)),
            ("errors in calibration", f"{found['errors']} of {counted(found['n'], 'question')}"),
        ]
    if given:
        return [
            *facts,
            ("questions of this run that it was calibrated on", "unknown: it was given"),
            ("questions that the rates are about", str(policy.test_questions)),
        ]
    return [
        *facts,
        ("questions it was calibrated on", str(policy.calibration_questions)),
        (
            "questions that the rates are about, none judged by a threshold from itself",
            str(policy.test_questions),
        ),
    ]


def _limits(policy: PolicySummary) -> list[str]:
    lines = []
    if policy.guarantee is not None and policy.guarantee["certified"]:
        lines += [
            "Single questions: the bound is on the share of unanswerable questions that pass, and "
            "it fails itself with the probability δ above.",
            "Other questions: the bound is about questions like those of this run. Another "
            "knowledge base, retriever, scorer or number of passages needs a new calibration.",
        ]
    lines.append(
        "False abstentions: how many answerable questions the guard abstains from is measured "
        "above, not bounded."
    )
    if policy.memory_threshold is not None:
        lines.append(
            "Answers from memory: their threshold was declared, not certified, and this suite "
            "measures no confidence. What counts as abstained above may be answered from memory."
        )
    return [
        *lines,
        "The reply: a language model can still misread a context that passes.",
        "Other kinds of missing knowledge: leaving out one passage imitates missing knowledge. "
        "What users ask beyond the knowledge base may be less similar to it, or more.",
    ]
