"""Running what was prepared: contexts, replies, labels of logs, judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....guard.decision import Route
from ...data import Encoder
from ...judging import (
    NOT_APPLICABLE,
    Judge,
    JudgedReply,
    Verdict,
    judge_run,
)
from ...run import (
    ABSTENTION,
    FACTUALITY,
    JUDGEMENTS,
    CallLimits,
    CaseKind,
    OnProgress,
    Question,
    RayPool,
    RunTotals,
    holds_replies,
    open_table,
    read_replies_run,
    start_replies_run,
)
from ...systems import (
    Calling,
    Case,
    Comparison,
    ContextSettings,
    SyntheticSettings,
    SystemRun,
    SystemUnderTest,
    synthetic_questions,
)
from ._bases import AskedBase
from ._left_out import note_left_out_check
from ._logs import given_judgements
from ._preparing import Prepared, prepare
from ._settings import RepliesSettings

# Rough, and the same for every model: English text by common tokenizers.
_CHARS_PER_TOKEN = 4
# A reply is taken to be as long as the expected answers, and a citation line.
_CITATION_TOKENS = 6
_HYDE_ANSWERS, _HYDE_INSTRUCTION = 3, 400


@dataclass(frozen=True, slots=True)
class SystemEstimate:
    """What one system is likely to cost.

    Attributes:
        system_id: of the system.
        replies: rows that it will have.
        calls: of its model; at most so many where a guard may abstain.
        input_tokens: of those calls, by the length of prompts and passages.
        output_tokens: likewise, by the length of the expected answers.
        at_most: whether a guard stands in front.
    """

    system_id: str
    replies: int
    calls: int
    input_tokens: int
    output_tokens: int
    at_most: bool


def estimate(prepared: Prepared) -> list[SystemEstimate]:
    """Calls and tokens per system, without retrieving anything; tries again not counted."""
    bases = {base.name: base for base in prepared.bases}
    cases_of_bases = prepared.cases()
    found = []
    # Retrieving is paid for once, whatever the systems that share it.
    paid: set[str] = set()
    for live in prepared.systems.live:
        writes = live.record.retrieval == "hyde" and live.record.retrieval not in paid
        paid.add(live.record.retrieval)
        read = written = calls = 0
        for name, cases in cases_of_bases.items():
            sizes = _Sizes.of(bases[name])
            for case in cases:
                calls += 2 if writes else 1
                read += _input(live, case, sizes, prepared, writes=writes)
                written += _output(sizes, writes=writes)
        rows = sum(map(len, cases_of_bases.values()))
        guarded = live.guarded
        found.append(SystemEstimate(live.system_id, rows, calls, read, written, guarded))
    of_logs: dict[str, int] = {system.system_id: 0 for system in prepared.replay.systems}
    for item in prepared.replay.items:
        of_logs[item.system.system_id] += 1
    found += [SystemEstimate(name, rows, 0, 0, 0, False) for name, rows in of_logs.items()]
    return found


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Lengths in characters."""

    passages: Mapping[str, int]
    whole: int
    mean_passage: float
    mean_answer: float

    @classmethod
    def of(cls, base: AskedBase) -> _Sizes:
        lengths = {name: len(text) for name, text in base.knowledge_base.passages.items()}
        answers = [len(record.answer) for record in base.records]
        return cls(
            passages=lengths,
            whole=sum(lengths.values()),
            mean_passage=sum(lengths.values()) / len(lengths),
            mean_answer=sum(answers) / len(answers),
        )


def _input(
    live: SystemUnderTest, case: Case, sizes: _Sizes, prepared: Prepared, *, writes: bool
) -> int:
    context = 0.0
    if live.record.retrieval == "long_context":
        context = sizes.whole - sizes.passages.get(case.passage_id, 0)
    elif live.record.retrieval != "direct":
        context = min(prepared.settings.top_k, len(sizes.passages)) * sizes.mean_passage
    if prepared.settings.context_chars is not None:
        context = min(context, prepared.settings.context_chars)
    if live.prompt is None:
        instruction = 0
    else:
        form = live.prompt.with_context if context else live.prompt.closed_book
        instruction = len(form.text)
    characters = instruction + len(case.question) + context
    if writes:
        characters += len(case.question) + _HYDE_INSTRUCTION
    return round(characters / _CHARS_PER_TOKEN)


def _output(sizes: _Sizes, *, writes: bool) -> int:
    reply = sizes.mean_answer / _CHARS_PER_TOKEN + _CITATION_TOKENS
    hyde = _HYDE_ANSWERS * sizes.mean_passage / _CHARS_PER_TOKEN
    return round(reply + (hyde if writes else 0))


_OF_GUARD = {ABSTENTION: "yes", FACTUALITY: NOT_APPLICABLE}
_REASONING = "the guard's own reply"


def judge_replies(
    folder: str | os.PathLike[str],
    judges: Sequence[Judge],
    *,
    limits: CallLimits | None = None,
    on_progress: OnProgress | None = None,
) -> RunTotals:
    """Judge every reply of a run, except the replies of guards.

    A guard's own reply is always an abstention: no judge is asked about it.

    Args:
        folder: of the run.
        judges: at least one, of different names.
        limits: of the calls that judging takes.
        on_progress: told after each verdict.

    Raises:
        InputError: the run or a judge cannot be used.
        MissingDependencyError: a judge needs a package that is not there.
    """
    rows = read_replies_run(folder).replies.values()
    by_guard = frozenset(row.reply_id for row in rows if row.route is Route.ABSTAIN)
    return judge_run(
        folder,
        [_KnowsGuards(judge, by_guard) for judge in judges],
        limits=limits,
        on_progress=on_progress,
    )


class _KnowsGuards:
    """A judge that is not asked about replies which guards gave in a model's place."""

    def __init__(self, judge: Judge, by_guard: Collection[str]) -> None:
        self._judge, self._by_guard = judge, by_guard
        self.name, self.estimate, self.criteria = judge.name, judge.estimate, judge.criteria

    def version(self, criterion: str) -> str:
        """Of the judge itself."""
        return self._judge.version(criterion)

    def wants(self, criterion: str, material: JudgedReply, known: Mapping[str, str]) -> bool:
        """Of a guard's reply, what is known of it; of others, what the judge wants."""
        if material.reply_id in self._by_guard:
            return criterion in _OF_GUARD
        return self._judge.wants(criterion, material, known)

    async def judge(
        self, criterion: str, material: JudgedReply, known: Mapping[str, str]
    ) -> Verdict:
        """The verdict, or what is known anyway."""
        if material.reply_id in self._by_guard:
            return Verdict(_OF_GUARD[criterion], reasoning=_REASONING)
        return await self._judge.judge(criterion, material, known)


@dataclass(frozen=True, slots=True)
class RepliesDone:
    """A finished run.

    Attributes:
        folder: where it lies.
        totals: of the replies.
        prepared: what it was made of.
    """

    folder: Path
    totals: RunTotals
    prepared: Prepared


def run_replies(
    questions: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    comparison: Comparison,
    *,
    encoder: Callable[[], Encoder],
    settings: RepliesSettings | None = None,
    limits: CallLimits | None = None,
    pool: RayPool | None = None,
    on_progress: OnProgress | None = None,
) -> RepliesDone:
    """Put the questions to all systems, and store what they say.

    Interrupted at any point and called again with the same arguments, it resumes and
    asks nothing twice. A call that fails for good is a row with its error.

    Args:
        questions: files, one per knowledge base.
        out: the run folder.
        comparison: what is compared.
        encoder: makes the retriever's encoder, called only where something searches.
        settings: what decides the replies.
        limits: how fast they may come.
        pool: workers on a Ray cluster that make the calls; None for this process.
        on_progress: told how far it is.

    Raises:
        InputError: an argument, a file or the folder cannot be used; raised before
            anything is asked, and the folder is left as it was.
        MissingDependencyError: a package is missing.
    """
    settings, out = settings or RepliesSettings(), Path(out)
    prepared = prepare(questions, comparison, settings)
    run = SystemRun(
        prepared.systems,
        {base.name: base.knowledge_base for base in prepared.bases},
        encoder,
        ContextSettings(settings.top_k, settings.context_chars),
    )
    if prepared.makes_up_questions:
        prepared = prepared.with_synthetic(_made_up(out, prepared, run))
    return _answered(out, prepared, run, Calling(limits or CallLimits(), pool, on_progress))


def _answered(out: Path, prepared: Prepared, run: SystemRun, calling: Calling) -> RepliesDone:
    items, passages = prepared.items(), prepared.passages()
    # Whatever can fail comes before the folder is made.
    run.require(items)
    folder = start_replies_run(
        out,
        settings=prepared.manifest_settings(
            run.systems, run.encoder if run.searches(items) else None
        ),
        systems=prepared.records(),
        questions=prepared.questions(),
        passages=passages,
        cases=prepared.reply_cases(),
        replies=len(items),
        inputs=prepared.inputs(),
    )
    note_left_out_check(folder, prepared.bases, prepared.left_out(), run.index)
    totals = run.answer(folder, items, passages, calling)
    if prepared.replay.items:
        rows = read_replies_run(folder).replies
        with open_table(folder, JUDGEMENTS) as table:
            table.extend(given_judgements(prepared.replay, rows))
    return RepliesDone(folder, totals, prepared)


def _made_up(out: Path, prepared: Prepared, run: SystemRun) -> dict[str, list[Question]]:
    """Made-up questions by knowledge base: those of the folder, or else new ones."""
    if (out / "manifest.json").exists() and holds_replies(out):
        return _made_up_before(out)
    found = {}
    for base in prepared.bases:
        made = synthetic_questions(
            base.records, run.encoder, run.writer(), SyntheticSettings(seed=prepared.settings.seed)
        )
        found[base.name] = [
            Question(
                question_id=f"{base.name}/{question.question_id}",
                question=question.question,
                knowledge_base=base.name,
            )
            for question in made.questions
        ]
    return found


def _made_up_before(folder: Path) -> dict[str, list[Question]]:
    run = read_replies_run(folder)
    found: dict[str, list[Question]] = {}
    for case in run.cases.values():
        if case.kind is CaseKind.SYNTHETIC:
            question = run.questions[case.question_id]
            found.setdefault(case.knowledge_base, []).append(question)
    return found
