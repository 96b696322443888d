"""A row per reply: the reply with its case, question, system and verdicts, and counts of rows.

run folder ─► Evidence (rows) ─► counts and rates, out of the knowledge base and in it

Tables, CSV, differences and sentences all follow from these rows and counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....calibration import Interval
from ....calibration.statistics import QuestionResamples
from ...report.text import one_line
from ...run import RepliesRun
from ...run.grouping import grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyRow, ReplySystem

OFF = "off"
MAIN = (Judgement.ABSTENTION, Judgement.FACTUALITY)
_RESAMPLES, _SEED = 1000, 0


class RatedReply:
    """A reply with its case, question, system and verdicts.

    Args:
        run: that it is of.
        row: as stored.
        said: all verdicts without error, by criterion, then by judge.
        verdicts: those that count, by criterion.

    Attributes:
        abstained: None where no judge said.
        tier: of its factuality; None where it abstained, or no judge said.
        failure: kind of a wrong answer; None where no judge said.
        wrong: it states something unacceptable; None where that is not known.
        right: it answers, and nothing in that is unacceptable; None where it has no tier.
        out_of_kb: the knowledge base does not hold the answer: abstaining is right.
    """

    def __init__(
        self,
        run: RepliesRun,
        row: ReplyRow,
        said: Mapping[str, Mapping[str, Judgement]],
        verdicts: Mapping[str, Judgement],
    ) -> None:
        self.run, self.row, self.said, self.verdicts = run, row, said, verdicts
        self.case, self.question = run.case_of(row), run.question_of(row)
        self.system = run.systems[row.system_id]
        outcomes = {criterion: verdict.outcome for criterion, verdict in verdicts.items()}
        abstention, tier = (outcomes.get(criterion) for criterion in MAIN)
        self.abstained = None if abstention is None else abstention == "yes"
        self.tier = tier if tier in Judgement.TIERS and not self.abstained else None
        self.failure = None if self.abstained else outcomes.get(Judgement.FAILURE)
        self.right = None if self.tier is None else self.tier != Judgement.TIERS[2]
        self.wrong = False if self.abstained else None if self.right is None else not self.right
        self.out_of_kb = self.case.kind is not CaseKind.IN_KB

    def judged_by(self, judge: str) -> RatedReply | None:
        """Return the reply with the verdicts of one judge; None where this one said nothing.

        Whether it abstained is taken from the first judge of that where this one does not say.
        """
        own = {name: found[judge] for name, found in self.said.items() if judge in found}
        if self.row.error is not None or own.keys().isdisjoint(MAIN):
            return None
        first = {k: one for k, one in self.verdicts.items() if k == Judgement.ABSTENTION}
        return RatedReply(self.run, self.row, self.said, first | own)

    @property
    def passages(self) -> list[str] | None:
        """The passages in the prompt of a reply that does not abstain; None where none is known."""
        context, stored = self.row.context, self.run.passages
        if context is None or context.kind != "passages" or not self.row.response or self.abstained:
            return None
        if not context.passages or any(name not in stored for name in context.passages):
            return None
        return [stored[name].text for name in context.passages]


class Evidence:
    """A run with the verdicts that count.

    Args:
        run_dir: folder of a run, finished or not.

    Attributes:
        run: as read.
        judges: per criterion, those who judged; the verdict of the first one counts.
        replies: without error, in the order of the manifest's systems and of the cases.
        failed: replies that ended in an error, likewise.
        every: both, the failed ones last.

    Raises:
        InputError: a file of the run is missing, broken or written by a newer knowgate.
    """

    def __init__(self, run_dir: str | os.PathLike[str]) -> None:
        self.run = run = RepliesRun.read(run_dir)
        said: dict[str, dict[str, dict[str, Judgement]]] = {name: {} for name in run.replies}
        for made in run.judgements.values():
            if made.error is None and made.outcome is not None:
                said[made.reply_id].setdefault(made.criterion, {})[made.judge] = made
        criteria = sorted({criterion for found in said.values() for criterion in found})
        self.judges = {name: run.judges_of(name) for name in criteria}
        # Replies stand in the order in which they finished, which chance decides.
        ranks = [{name: rank for rank, name in enumerate(of)} for of in (run.systems, run.cases)]
        rows = sorted(
            run.replies.values(),
            key=lambda row: (ranks[0][row.system_id], ranks[1][row.case_id], row.reply_id),
        )
        rated = [RatedReply(run, row, own := said[row.reply_id], self._rank(own)) for row in rows]
        self.replies = [reply for reply in rated if reply.row.error is None]
        self.failed = [reply for reply in rated if reply.row.error is not None]
        self.every = [*self.replies, *self.failed]

    def primary(self, criterion: str) -> str | None:
        """Return the judge whose verdict counts."""
        return next(iter(self.judges.get(criterion, ())), None)

    def _rank(self, said: Mapping[str, Mapping[str, Judgement]]) -> dict[str, Judgement]:
        """Return by criterion the verdict of the first judge in rank who judged the reply.

        Where the first of all gives judgements, an offline estimate does not fill its gaps.
        """
        found = {}
        for criterion, by_judge in said.items():
            for rank, judge in enumerate(self.judges[criterion]):
                if judge in by_judge and not (rank and by_judge[judge].estimate):
                    found[criterion] = by_judge[judge]
                    break
        return found


Counts = dict[str, Any]
"""Outcomes of replies as `report.json` has them; see `count_replies`."""


def count_replies(given: Iterable[RatedReply]) -> Counts:
    """Count outcomes of replies, failed ones included.

    Returns:
        Of questions whose answer the knowledge base does not hold: replies without an error, errors
        (which count nowhere else), different questions; abstentions and answers, and answers of
        each tier, None where nobody judged that; replies without a verdict on abstention, and
        answers without a tier, by criterion; and the shares of abstentions among those judged, of
        tiers 1 and 2 among answers with a tier, and of tier 3 among all replies that abstained or
        have a tier. Beneath `in_kb` the same of the other questions, where abstaining is wrong.
    """
    sides = grouped(given, lambda reply: reply.out_of_kb)
    found, in_kb = (_counts(sides.get(side, ())) for side in (True, False))
    in_kb["false_abstention_rate"] = in_kb.pop("abstention_rate")
    return {**found, "in_kb": in_kb}


def count_by_base(replies: Iterable[RatedReply]) -> dict[str, Counts]:
    """Count replies by name of the knowledge base."""
    bases = grouped(replies, lambda reply: reply.case.knowledge_base)
    return {name: count_replies(own) for name, own in bases.items()}


def _counts(given: Sequence[RatedReply]) -> Counts:
    replies = [reply for reply in given if reply.row.error is None]
    judged = [reply for reply in replies if reply.abstained is not None]
    answers = [reply for reply in replies if not reply.abstained]
    tiered = [reply for reply in answers if reply.tier is not None]
    # Without any tier, nothing is known of answers: only abstentions would be left.
    known = [one for one in replies if one.wrong is not None and (tiered or not answers)]
    abstained = sum(reply.abstained is True for reply in judged)
    tiers = Counter(reply.tier for reply in tiered)
    told = bool(judged) or not replies
    return {
        "n": len(replies),
        "errors": len(given) - len(replies),
        "questions": len({reply.case.question_id for reply in replies}),
        "abstained": abstained if told else None,
        "answered": len(judged) - abstained if told else None,
        **{name: tiers[name] if tiered or not answers else None for name in Judgement.TIERS},
        "unjudged": {
            Judgement.ABSTENTION: len(replies) - len(judged),
            Judgement.FACTUALITY: len(answers) - len(tiered),
        },
        "abstention_rate": rate((reply, reply.abstained is True) for reply in judged),
        "factuality_rate": rate((reply, reply.right is True) for reply in tiered),
        "wrong_answer_rate": rate((reply, reply.wrong is True) for reply in known),
    }


def rate(trials: Iterable[tuple[RatedReply, bool]]) -> Interval:
    """Estimate the share of replies that hit, each given with whether it does.

    Wilson's interval where each question stands once; otherwise, as where several systems
    answered the same question, a bootstrap that draws whole questions.
    """
    pairs = [(reply.case.question_id, hit) for reply, hit in trials]
    hits, names = sum(hit for _, hit in pairs), list(dict.fromkeys(name for name, _ in pairs))
    if len(names) == len(pairs):
        return Interval.wilson(hits, len(pairs))
    resamples = QuestionResamples(names, resamples=_RESAMPLES, seed=_SEED)
    counts = np.zeros((len(names), 2))
    for name, hit in pairs:
        counts[resamples.position(name)] += (float(hit), 1.0)
    totals = resamples.totals(counts)
    return Interval.of_draws(hits / len(pairs), totals[:, 0] / totals[:, 1], len(names))


# -- Names of systems -------------------------------------------------------------------

FACTORS = ("model", "retrieval", "prompt", "guard")
SEPARATOR = " \N{MIDDLE DOT} "
LONGEST = 60


def varying(systems: Sequence[ReplySystem]) -> tuple[str, ...]:
    """List the factors in which the systems differ; of a single system, all known ones."""
    values = {name: {getattr(system, name) for system in systems} for name in FACTORS}
    found = tuple(name for name in FACTORS if len(values[name]) > 1)
    return found or tuple(name for name in FACTORS if any(values[name]))


def labels(systems: Sequence[ReplySystem]) -> dict[str, str]:
    """Name each system by its varying factors, or by its id where these are not unique."""
    short = {system.system_id: label(system, varying(systems)) for system in systems}
    alike = len(set(short.values())) < len(short)
    shown = [name if alike else text or name for name, text in short.items()]
    return dict(zip(short, distinct(shown), strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """Shorten each name to one line, and number those that then look alike.

    Example:
        >>> distinct(["a", "b", "a\\n"])
        ['a', 'b', 'a #2']
    """
    found: list[str] = []
    for name in names:
        short = one_line(name, LONGEST)
        numbered = (f"{short} #{number}" for number in range(2, len(names) + 2))
        found.append(next(one for one in (short, *numbered) if one not in found))
    return found


def change(base: ReplySystem, other: ReplySystem, factor: str, factors: Sequence[str]) -> str:
    """Describe what changes from one system to another.

    Args:
        base: before.
        other: after.
        factor: in which they differ.
        factors: in which the systems of the run differ.
    """
    texts = (one_line(getattr(one, factor)) or "unknown" for one in (base, other))
    changed = " → ".join(one_line(text, LONGEST) for text in texts)
    same = one_line(label(base, [name for name in factors if name != factor]), LONGEST)
    return f"{same}: {changed}" if same else changed


def label(system: ReplySystem, factors: Sequence[str]) -> str:
    """Name a system by some of its factors."""
    values = {name: one_line(getattr(system, name)) or f"{name} unknown" for name in factors}
    return SEPARATOR.join(f"guard {v}" if name == "guard" else v for name, v in values.items())
