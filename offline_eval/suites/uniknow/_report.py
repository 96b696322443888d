"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► checked_run ─► summarise_uniknow ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ....calibration import Interval
from ....guard.decision import Scenario
from ....guard.policy import Policy
from ....guard.routing import Signals, decide_route
from ...report.document import Case, CaseLine, Cases, Document, Passages, Prose, Section
from ...report.tables import Table
from ...report.text import counted, decimal, estimate_text, one_line, percent
from ...report.what_if import WhatIf, WhatIfCase
from ._cases import PAPER_KINDS, CaseRow, ContextKind, UniKnowRow, UniKnowSignal
from ._matching import is_right
from ._metrics import (
    ERROR_TYPES,
    PUBLISHED_ABLATION,
    PUBLISHED_MODEL,
    MethodMetrics,
    Outcome,
    PairedDifference,
    measured,
    outcome_of,
)
from ._plots import (
    abstention_share_plot,
    context_kind_plot,
    outcome_plot,
    rely_plot,
    situation_plot,
)
from ._report_tables import (
    ablation_table,
    beyond_table,
    difference_table,
    error_table,
    overall_table,
    published_table,
    situation_table,
)
from ._summary import (
    KIND_TITLES,
    SITUATIONS,
    Family,
    UniKnowSummary,
    contexts_of,
    in_order,
    shown_method,
    variant_of,
)
from .plan import UniKnowRun

_GUARD, _BASE = "guard_naive", "naive"
_MEANING = (
    "An answer is there if the context holds one or the closed-book answer is right. The reply at "
    "a threshold is that of the naive method, the closed-book answer, or an abstention."
)


def uniknow_what_if(run: UniKnowRun) -> WhatIf | str | None:
    """Let a reader try other thresholds on the guard over the naive method.

    Returns:
        None where that guard or the naive method took no part; a sentence where the stored
        signals do not give the stored decisions.
    """
    policy = run.policy
    replies = {row.case_key: row for row in run.rows if row.method == _BASE and not row.error}
    signals = {one.case_id: one for one in run.signals}
    decided = [
        row
        for row in run.rows
        if row.method == _GUARD
        and not row.error
        and row.context_kind in PAPER_KINDS
        and row.case_key in replies
        and row.case_key in signals
    ]
    if policy is None or not decided:
        return None
    cases = [_case(run, policy, signals[row.case_key], replies[row.case_key]) for row in decided]
    other = sum(_route(policy, case) != row.route for row, case in zip(decided, cases, strict=True))
    if other:
        return (
            f"The stored decisions on {counted(other, 'case')} do not follow from the stored "
            "signals and policy, so it is not known what another threshold would have done."
        )
    block = WhatIf(
        cases=tuple(cases),
        policy=policy,
        which=f"Cases of the four situations, of the method {_GUARD}",
        leave_one_out=False,
        replies=True,
        notes=(_MEANING,),
    )
    return block if block.sliders else None


def _case(run: UniKnowRun, policy: Policy, signal: UniKnowSignal, reply: UniKnowRow) -> WhatIfCase:
    relevance, confidence = signal.raw_relevance, signal.raw_confidence
    calibrated = policy.relevance_calibrator, policy.confidence_calibrator
    case = run.cases[signal.case_id]
    context: Literal["right", "wrong", "abstained"] = "right" if reply.right else "wrong"
    from_memory = is_right((signal.closed_book or "").strip(), case.case.expected)
    return WhatIfCase(
        name=signal.case_id,
        question=case.question,
        relevance=None if relevance is None else calibrated[0].apply(relevance),
        confidence=None if confidence is None else calibrated[1].apply(confidence),
        context_right=signal.holds_answer,
        memory_right=bool(signal.closed_book_right),
        context_reply="abstained" if reply.abstained else context,
        memory_reply="right" if from_memory else "wrong",
    )


def _route(policy: Policy, case: WhatIfCase) -> str:
    signals = Signals.replay(policy, case.relevance, case.confidence)
    return decide_route(policy, signals).route.value


_SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT, _REPLY_LIMIT, _ANSWERS = 300, 700, 120, 4
_OUTCOMES = {
    Outcome.RIGHT: "right",
    Outcome.RIGHT_ABSTENTION: "right abstention",
    Outcome.FALSE_ABSTENTION: "false abstention",
    Outcome.CONTEXTUAL: "context used wrongly",
    Outcome.PARAMETRIC: "memory used wrongly",
    Outcome.OTHER: "wrong",
}
_TITLES = {
    **{situation.name: situation.title for situation in SITUATIONS},
    "agreement": "Both agree",
}


def worst_cases(run: UniKnowRun) -> list[Section]:
    """Choose per kind of context the cases that most methods got wrong; ablations do not vote."""
    rows: dict[str, list[tuple[UniKnowRow, Outcome]]] = {}
    contexts = contexts_of(run)
    for row in measured(run.rows):
        key = row.case_key
        if variant_of(row.method) is None and key in run.cases:
            rows.setdefault(key, []).append((row, outcome_of(row, contexts[key])))
    found = []
    for kind in ContextKind:
        of_kind = {key: own for key, own in rows.items() if own[0][0].context_kind == kind}
        wrong = {key: count for key, own in of_kind.items() if (count := _wrong(own))}
        chosen = sorted(wrong, key=lambda key: (-wrong[key], key))[:_SHOWN]
        if chosen:
            title, meaning = KIND_TITLES[kind]
            cases = tuple(_shown(key, run.cases[key], of_kind[key]) for key in chosen)
            title = f"{title}: {len(cases)} of {len(wrong)} that some method got wrong"
            found.append(Section(title, (meaning, Cases(cases)), folded=True))
    return found


def _wrong(rows: Sequence[tuple[UniKnowRow, Outcome]]) -> int:
    return sum(outcome in ERROR_TYPES for _, outcome in rows)


def _shown(key: str, case: CaseRow, rows: Sequence[tuple[UniKnowRow, Outcome]]) -> Case:
    scenario = rows[0][0].scenario
    grouped: dict[tuple[str, Outcome], list[str]] = {}
    for row, outcome in rows:
        text = one_line(row.answer or "", _REPLY_LIMIT)
        grouped.setdefault((text, outcome), []).append(row.method)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    situation = _TITLES.get(scenario or "", "Not settled whether the model knows it")
    passages = tuple(CaseLine(one_line(passage, _PASSAGE_LIMIT)) for passage in case.passages)
    replies = (
        CaseLine(
            text or "(no answer)",
            tag=_OUTCOMES[outcome],
            wrong=outcome in ERROR_TYPES,
            note=", ".join(in_order(methods)),
        )
        for (text, outcome), methods in ordered
    )
    return Case(
        question=one_line(case.question, _QUESTION_LIMIT),
        note=f"{key} · {situation}",
        parts=(
            CaseLine(_wanted(case, scenario), "Wanted", right=True),
            Passages(passages),
            *replies,
        ),
    )


def _wanted(case: CaseRow, scenario: str | None) -> str:
    if scenario == Scenario.UNKNOWN:
        return f"to abstain (the answer would be: {_answers(case.answers)})"
    return _answers(case.context_answers or case.answers)


def _answers(answers: Sequence[str]) -> str:
    unique = list(dict.fromkeys(one_line(answer, _REPLY_LIMIT) for answer in answers))
    rest = f" (and {len(unique) - _ANSWERS} other wordings)" if len(unique) > _ANSWERS else ""
    return " / ".join(unique[:_ANSWERS]) + rest


_SPACE = "\u00a0"
_FEW = 30
# Share of a method's replies that may have failed for it still to be compared.
_MOST_FAILED = 0.05


def headline(summary: UniKnowSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    lines = [_best(summary)]
    for guard, base in (("guard_naive", "naive"), ("guard_coiecd", "coiecd")):
        lines.append(_guarded(summary, guard, base))
    lines.append(_against_trained(summary))
    return [line for line in lines if line]


def _best(summary: UniKnowSummary) -> str:
    ranked = sorted(
        (
            (found.overall["rely"].value, name)
            for name, found in summary.main.items()
            if found.overall["rely"].value is not None and not _mostly_silent(summary, name)
        ),
        key=lambda item: (-item[0], item[1]),
    )
    if not ranked:
        return "Nothing can be ranked: too many cases of this run ended in an error."
    best = summary.main[ranked[0][1]].overall["rely"]
    words = f"Most reliable: {ranked[0][1]}, with a Rely of {estimate_text(best, decimal)}"
    naive = summary.main.get("naive")
    if naive is None or ranked[0][1] == "naive" or naive.overall["rely"].value is None:
        return f"{words}."
    return f"{words}; the model as it is (naive) reaches {decimal(naive.overall['rely'].value)}."


def _mostly_silent(summary: UniKnowSummary, name: str) -> bool:
    """Whether rates are not comparable: too many failures, or a guard that always abstains."""
    found = summary.main[name]
    failed = found.failed > _MOST_FAILED * (found.failed + found.overall.cases)
    return failed or (name.startswith("guard_") and _is_shut(summary))


def _is_shut(summary: UniKnowSummary) -> bool:
    return summary.promise is not None and not summary.promise.certified


def _guarded(summary: UniKnowSummary, guard: str, base: str) -> str:
    ours, theirs = summary.main.get(guard), summary.main.get(base)
    if ours is None or theirs is None or _is_shut(summary):
        return ""
    parts = [
        _against(
            ours, theirs, "unknown", "abstains from {} of what neither context nor model knows"
        ),
        _against(ours, theirs, "parametric_only", "is right in {} where only the model knows"),
    ]
    known = [part for part in parts if part]
    if not known:
        return ""
    return f"The guard over {base} " + ", and ".join(known) + "." + _costs(summary, guard, base)


def _costs(summary: UniKnowSummary, guard: str, base: str) -> str:
    """Say where the guard is clearly worse than what it guards; empty if nowhere."""
    found = next((d for d in summary.differences if (d.method, d.base) == (guard, base)), None)
    losses = [
        f"{-100 * difference.value:.1f} points in “{situation.title}”"
        for situation in SITUATIONS
        if found is not None
        for difference in [found.metrics[f"em_{situation.name}"]]
        if difference.value is not None and difference.high is not None and difference.high < 0
    ]
    return f" It costs {' and '.join(losses)}." if losses else ""


def _against(ours: MethodMetrics, theirs: MethodMetrics, scenario: str, words: str) -> str:
    own, base = ours.scenarios[scenario]["em"], theirs.scenarios[scenario]["em"]
    if own.value is None or base.value is None:
        return ""
    return f"{words.format(percent(own.value))} ({percent(base.value)} without it)"


def _against_trained(summary: UniKnowSummary) -> str:
    if _is_shut(summary):
        return ""
    compared: list[tuple[float, PairedDifference, Interval]] = []
    for found in summary.differences:
        rely = found.metrics["rely"]
        trained = shown_method(found.base)[0] is Family.TRAINED
        if found.method == "guard_naive" and trained and rely.value is not None:
            compared.append((rely.value, found, rely))
    if not compared:
        return ""
    # The smallest difference belongs to the best of the trained methods.
    value, found, rely = min(compared, key=lambda item: (item[0], item[1].base))
    where = "above" if value >= 0 else "below"
    ends = f"{decimal(rely.low)} to {decimal(rely.high)}"
    difference = f"95{_SPACE}% interval of guard_naive minus {found.base}: {ends}"
    return (
        f"The Rely of guard_naive lies {decimal(abs(value))} {where} that of {found.base}, the "
        f"best of the fine-tuned methods ({difference})."
    )


def warnings(summary: UniKnowSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    lines = [*_of_the_run(summary), *_of_the_cases(summary)]
    if summary.groups < summary.questions:
        lines.append(
            f"{counted(summary.questions, 'question')} come from "
            f"{counted(summary.groups, 'document or subject', 'documents or subjects')}. Questions "
            "on one of them tend to have the same outcome, and the intervals take each for "
            "independent, so they are somewhat too narrow."
        )
    if summary.problems:
        kinds = ", ".join(f"{name}: {count}" for name, count in sorted(summary.problems.items()))
        lines.append(f"Some contexts could not be built, and their cases are missing ({kinds}).")
    return lines


def _of_the_run(summary: UniKnowSummary) -> Iterator[str]:
    rows, planned = len(summary.run.rows), summary.run.plan.rows
    if rows < planned:
        yield (
            f"The run is incomplete: {rows} of {planned} replies are there. Start the same "
            "'knowgate eval uniknow' again to complete it."
        )
    if failed := sum(sum(types.values()) for types in summary.failures.values()):
        yield (
            f"{counted(failed, 'reply', 'replies')} of {rows} ended in an error and "
            "count in no rate, because a failed call is no answer. They are listed below."
        )
    if summary.promise is not None and not summary.promise.certified:
        yield (
            "The guards abstain from everything, as nothing was certified. "
            f"{summary.promise.statement}"
        )


def _of_the_cases(summary: UniKnowSummary) -> Iterator[str]:
    asked = Counter(row.method for row in summary.run.rows)
    counts = {asked[name] for name in summary.main}
    if len(counts) > 1:
        yield (
            f"The methods were asked different numbers of cases ({min(counts)} to "
            f"{max(counts)}): compare them by the differences, which rest on common cases alone."
        )
    found = {
        one.title: [method.scenarios[one.name] for method in summary.main.values()]
        for one in SITUATIONS
    }
    empty = [title for title, rates in found.items() if all(not rate.cases for rate in rates)]
    if empty:
        names = ", ".join(f"“{title}”" for title in empty)
        yield (
            f"No case of this run falls under {names}: that column is empty, and with it the mean "
            "of the four."
        )
    sizes = [rate.questions for rates in found.values() for rate in rates if rate.questions]
    if sizes and min(sizes) < _FEW:
        yield (
            f"One of the situations rests on {counted(min(sizes), 'question')} only: consider the "
            "width of the intervals before comparing two methods."
        )


_TESTED = (
    "A language model can answer from two sources: what it learned in training (its memory), and "
    "the text before the question (the context). Each can hold the answer, or not. Every question "
    "was asked with several contexts: one that states the answer, one in which the answer was "
    "replaced by another, and two that do not hold it. Together with what the model knows, that "
    "makes four situations:"
)
_KNOWN = (
    "What the model knows was measured by asking it each question several times without any "
    "context: it knows a question if most of the sampled answers are right, and does not know it "
    "if none is."
)
_RIGHT = (
    "An answer counts as right if it is the wanted one word for word, capitals, punctuation and "
    "articles aside."
)
_TRAINING = (
    "“abstention=” is the share of training examples whose target is to abstain, “without=” names "
    "kinds of contexts left out of the training."
)
_BEYOND = (
    "These contexts go beyond the four situations and enter no number above. “As wanted” leaves "
    "out questions where sampling did not settle what the model knows; “misled” is an answer that "
    "only an untrue passage gives."
)
_PUBLISHED = (
    f"Published, other model, for orientation: {PUBLISHED_MODEL}, exact match averaged over seven "
    "public data sets; Rely on NaturalQuestions alone, where it is available. Beneath each is what "
    "this run found with its own model and data. The two are not comparable number by number; what "
    "can be compared is which method gains where."
)


def uniknow_document(summary: UniKnowSummary) -> Document:
    """Make the report of a summarised run."""
    cases = summary.run.cases
    names = ", ".join(sorted({case.dataset for case in cases.values()}))
    return Document(
        name="uniknow",
        title=f"Knowledge scenarios: {names}" if names else "Knowledge scenarios",
        subtitle=(
            f"{counted(summary.questions, 'question')}, {counted(len(cases), 'case')}, "
            f"{counted(len(summary.main), 'method')} · UniKnow suite"
        ),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
        systems={name: found.to_dict() for name, found in summary.methods.items()},
    )


def _sections(summary: UniKnowSummary) -> list[Section | None]:
    measured = {name: found for name, found in summary.main.items() if found.overall.cases}
    manifest, differences = summary.run.manifest, summary.differences
    worst, what_if = worst_cases(summary.run), uniknow_what_if(summary.run)
    return [
        _tested(summary),
        Section(
            "What each method did in each situation",
            (situation_plot(measured), situation_table(measured), _methods(measured)),
        ),
        Section("Reliability", (rely_plot(measured), overall_table(measured))),
        Section("What went wrong", (outcome_plot(measured), error_table(measured))),
        Section("The guard against what it guards", (difference_table(differences),))
        if differences
        else None,
        Section("What if the guard’s thresholds were others?", (what_if,)) if what_if else None,
        _ablations(summary),
        _beyond(summary),
        Section(
            "Cases worth reading",
            (
                "For each kind of context the cases that most methods got wrong; equal replies "
                "are shown once.",
                *worst,
            )
            if worst
            else ("No method got any case wrong.",),
        ),
        _failures(summary),
        Section("What the paper published", (_PUBLISHED, published_table(summary.main))),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _tested(summary: UniKnowSummary) -> Section:
    def most(name: str, what: str) -> int:
        counts = [getattr(found.scenarios[name], what) for found in summary.main.values()]
        return max(counts, default=0)

    situations = Table.of_text(
        ("Situation", "What is the case", "What is wanted", "Questions", "Cases"),
        [
            (
                f"{one.title} ({one.letter})",
                one.what,
                one.wanted,
                most(one.name, "questions"),
                most(one.name, "cases"),
            )
            for one in SITUATIONS
        ],
    )
    known, unknown, undefined = (
        summary.knowledge[name] for name in ("known", "unknown", "undefined")
    )
    knows = (
        f"By that measure the model knows {known} of {counted(summary.questions, 'question')}, "
        f"does not know {unknown}, and for {undefined} sampling did not settle it: these are in no "
        "situation, and count in Rely and its parts alone."
    )
    return Section("What was tested", (_TESTED, situations, f"{_KNOWN} {knows}", _RIGHT))


def _methods(methods: Mapping[str, MethodMetrics]) -> Section | None:
    meanings = tuple((name, meaning) for name in methods if (meaning := shown_method(name)[1]))
    return Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None


def _ablations(summary: UniKnowSummary) -> Section | None:
    if len(summary.main) == len(summary.methods):
        return None
    parts = (
        f"{'without ' + ' and '.join(kinds) if kinds else 'full training'} {decimal(rely)}"
        for kinds, rely in PUBLISHED_ABLATION.items()
    )
    published = (
        f"Published for {PUBLISHED_MODEL} on TriviaQA, for orientation: Rely {', '.join(parts)}."
    )
    return Section(
        "What the training needs",
        (
            abstention_share_plot(summary.ablations[0]),
            context_kind_plot(summary.ablations[1]),
            ablation_table(summary),
            Prose((_TRAINING, published), small=True),
        ),
    )


def _beyond(summary: UniKnowSummary) -> Section | None:
    if not summary.beyond:
        return None
    parts = []
    for kind, by_method in summary.beyond.items():
        title, meaning = KIND_TITLES[kind]
        shown = {name: found for name, found in by_method.items() if variant_of(name) is None}
        parts.append(Section(title, (Prose((meaning,), small=True), beyond_table(shown, kind))))
    return Section("More than one passage, and untrue ones", (_BEYOND, *parts))


def _failures(summary: UniKnowSummary) -> Section:
    failed = [
        (method, kind, count)
        for method, types in summary.failures.items()
        for kind, count in types.items()
    ]
    if failed:
        table = Table.of_text(
            ("Method", "Type of error", "Replies"),
            failed,
            notes=("They count in no number of this report.",),
        )
    left_out = tuple(summary.run.manifest.left_out.items())
    return Section(
        "Failures",
        (
            table if failed else "None: every method replied to every case it was given.",
            "Not run on this model:" if left_out else None,
            Prose(left_out, bullets=True) if left_out else None,
        ),
    )
