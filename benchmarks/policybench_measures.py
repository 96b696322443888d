"""What `policybench.py` counts: replies without and with a guard, and what the guard costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from policybench_guard import Asked
from policybench_logs import Reply, Run
from policybench_rates import Counted, share

from knowgate.calibration import Interval


@dataclass(frozen=True)
class Judged:
    """A logged reply, and whether the guard would have stopped it."""

    reply: Reply
    stopped: bool


@dataclass(frozen=True)
class InPlace:
    """A context with the question's own passage: whether the guard follows it; None if missed."""

    question_id: str
    followed: bool | None


@dataclass(frozen=True)
class Part:
    """A guard with the questions that count for it."""

    asked: Asked
    questions: frozenset[str]


@dataclass(frozen=True)
class Figures:
    """Shares of replies, each with a 95 % interval.

    Attributes:
        replies: how many.
        questions: of how many questions.
        model_abstained: the model itself did, of all replies.
        unsafe_without: wrong answers given, of all replies.
        unsafe_with: the same where a reply that the guard stops is an abstention.
        stopped: contexts that the guard does not follow, of all replies.
        unsafe_stopped: stopped, of the wrong answers.
        right_stopped: stopped, of the right answers.
    """

    replies: int
    questions: int
    model_abstained: Interval
    unsafe_without: Interval
    unsafe_with: Interval
    stopped: Interval
    unsafe_stopped: Interval
    right_stopped: Interval


@dataclass(frozen=True)
class RunFigures:
    """One run file.

    Attributes:
        name: of the file.
        has_context: whether the model was given passages.
        passages: how many the guard was asked about at most.
        strangers, unjudged: replies that were left out, see `Run`.
        figures: of its replies.
        false_abstention: of the same contexts with the question's passage added, the share
            that the guard abstains from; None where the model was given no passages.
        missed: those contexts that, shortened, do not hold the question's passage; they are
            not in `false_abstention`.
    """

    name: str
    has_context: bool
    passages: int
    strangers: int
    unjudged: int
    figures: Figures
    false_abstention: Interval | None
    missed: int


@dataclass(frozen=True)
class Retrieved:
    """The guard on the passages nearest to each question, over questions.

    Attributes:
        passed: share of the questions that pass with their passage left out: what a policy
            of `knowgate calibrate` bounds.
        false_abstention: share that the guard abstains from with their passage retrieved.
        missed: share whose passage is in the knowledge base and not retrieved.
    """

    passed: Interval
    false_abstention: Interval
    missed: Interval


@dataclass(frozen=True)
class Result:
    """All that is measured of one policy on one document.

    Attributes:
        runs: one per file.
        pooled: over all run files.
        pooled_with_context: over those that gave the model passages.
        false_abstention: as in `RunFigures`, over those files.
        missed: likewise.
        retrieved: without the logs' contexts.
    """

    runs: tuple[RunFigures, ...]
    pooled: Figures
    pooled_with_context: Figures
    false_abstention: Interval
    missed: int
    retrieved: Retrieved

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def figures(judged: Sequence[Judged], *, pooled: bool) -> Figures:
    """Shares of replies, by the interval of `policybench_rates.share`."""

    def rate(hits: Iterable[bool], of: Iterable[bool] | None = None) -> Interval:
        among = [True] * len(judged) if of is None else list(of)
        counted = [
            Counted(one.reply.question_id, int(hit and member), int(member))
            for one, hit, member in zip(judged, hits, among, strict=True)
        ]
        return share(counted, pooled=pooled)

    stopped = [one.stopped for one in judged]
    unsafe = [one.reply.unsafe for one in judged]
    return Figures(
        replies=len(judged),
        questions=len({one.reply.question_id for one in judged}),
        model_abstained=rate(one.reply.abstained for one in judged),
        unsafe_without=rate(unsafe),
        unsafe_with=rate(bad and not held for bad, held in zip(unsafe, stopped, strict=True)),
        stopped=rate(stopped),
        unsafe_stopped=rate(stopped, unsafe),
        right_stopped=rate(stopped, [one.reply.right for one in judged]),
    )


def measured(runs: Sequence[Run], parts: Sequence[Part]) -> Result:
    """Everything about one guard, or about several that each judge questions of their own.

    Args:
        runs: of the document that the guards were asked about.
        parts: guards, each with the questions that count for it, such as those that its
            policy was not fitted on; the knowledge base stays whole.
    """
    rows: list[RunFigures] = []
    all_judged: list[Judged] = []
    with_context: list[Judged] = []
    in_place: list[InPlace] = []
    for run in runs:
        judged: list[Judged] = []
        added: list[InPlace] = []
        passages = 0
        for part in parts:
            replies = [reply for reply in run.replies if reply.question_id in part.questions]
            contexts = [part.asked.put(reply.question_id, reply.context) for reply in replies]
            decided = zip(replies, part.asked.follows(contexts), strict=True)
            judged += [Judged(reply, not follows) for reply, follows in decided]
            added += _in_place(part.asked, replies)
            passages = max([passages, *(len(one.ids) for one in contexts)])
        rows.append(_run_figures(run, passages, judged, added, repeated=_repeated(parts)))
        all_judged += judged
        with_context += judged if run.has_context else []
        in_place += added
    return Result(
        runs=tuple(rows),
        pooled=figures(all_judged, pooled=True),
        pooled_with_context=figures(with_context, pooled=True),
        false_abstention=_false_abstention(in_place, pooled=True),
        missed=sum(one.followed is None for one in in_place),
        retrieved=_retrieved(parts),
    )


def _repeated(parts: Sequence[Part]) -> bool:
    """Whether a question counts for several guards, so that its replies come several times."""
    return sum(len(part.questions) for part in parts) > len(
        frozenset().union(*(part.questions for part in parts))
    )


def _in_place(asked: Asked, replies: Sequence[Reply]) -> list[InPlace]:
    """The logged contexts with the source added."""
    contexts = [
        asked.put(reply.question_id, (*reply.context, reply.question_id))
        for reply in replies
        if reply.context
    ]
    holding = [one for one in contexts if asked.holds_source(one)]
    followed = dict(zip(holding, asked.follows(holding), strict=True))
    return [InPlace(one.question_id, followed.get(one)) for one in contexts]


def _false_abstention(found: Sequence[InPlace], *, pooled: bool) -> Interval:
    counted = [
        Counted(one.question_id, int(not one.followed)) for one in found if one.followed is not None
    ]
    return share(counted, pooled=pooled)


def _run_figures(
    run: Run,
    passages: int,
    judged: Sequence[Judged],
    in_place: Sequence[InPlace],
    *,
    repeated: bool,
) -> RunFigures:
    return RunFigures(
        name=run.name,
        has_context=run.has_context,
        passages=passages,
        strangers=run.strangers,
        unjudged=run.unjudged,
        figures=figures(judged, pooled=repeated),
        false_abstention=_false_abstention(in_place, pooled=repeated) if run.has_context else None,
        missed=sum(one.followed is None for one in in_place),
    )


def _retrieved(parts: Sequence[Part]) -> Retrieved:
    passed: list[Counted] = []
    whole: list[InPlace] = []
    for part in parts:
        asked, names = part.asked, sorted(part.questions)
        followed = asked.follows([asked.retrieved(name, left_out=True) for name in names])
        passed += [Counted(name, int(one)) for name, one in zip(names, followed, strict=True)]
        found = [asked.retrieved(name, left_out=False) for name in names]
        holding = [one for one in found if asked.holds_source(one)]
        followed_whole = dict(zip(holding, asked.follows(holding), strict=True))
        whole += [InPlace(one.question_id, followed_whole.get(one)) for one in found]
    missed = [Counted(one.question_id, int(one.followed is None)) for one in whole]
    repeated = _repeated(parts)
    return Retrieved(
        passed=share(passed, pooled=repeated),
        false_abstention=_false_abstention(whole, pooled=repeated),
        missed=share(missed, pooled=repeated),
    )
