"""A row per reply: the reply with its case, question, system and verdicts, and counts of rows.

run folder ─► Evidence (rows) ─► ReplyShape: counts and rates out of the knowledge base, and in it

Tables, plots, CSV, differences and cases to read all follow from these rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....calibration import Interval
from ....calibration.statistics import QuestionResamples
from ...report.document import as_json
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
        self.wrong = None if self.tier is None else self.tier == Judgement.TIERS[2]
        if self.abstained:
            self.wrong = False
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


class ReplyCounts:
    """Outcomes of the replies to one kind of case.

    Args:
        given: the replies, failed ones included.

    Attributes:
        n: replies without an error.
        questions: different ones among them.
        errors: replies that ended in one; they count nowhere else.
        abstained: None where that was not judged.
        answered: judged not to abstain, None likewise.
        tier_1: of those that did not abstain; None where that was not judged.
        tier_2: likewise.
        tier_3: likewise.
        unjudged: replies without a verdict on abstention, and replies that did not abstain
            without a tier, by criterion.
        abstention_rate: of those judged.
        factuality_rate: tiers 1 and 2 among answers with a tier.
        wrong_answer_rate: tier 3 among all replies that abstained or have a tier.
    """

    def __init__(self, given: Sequence[RatedReply]) -> None:
        replies = [reply for reply in given if reply.row.error is None]
        judged = [reply for reply in replies if reply.abstained is not None]
        abstained = sum(reply.abstained is True for reply in judged)
        open_ones = [reply for reply in replies if not reply.abstained]
        tiered = [reply for reply in open_ones if reply.tier is not None]
        # Without any tier, nothing is known of answers: only abstentions would be left.
        known = [one for one in replies if one.wrong is not None and (tiered or not open_ones)]
        tiers = Counter(reply.tier for reply in tiered)
        self.n, self.errors = len(replies), len(given) - len(replies)
        self.questions = len({reply.case.question_id for reply in replies})
        self.abstained = abstained if judged or not replies else None
        self.answered = len(judged) - abstained if judged or not replies else None
        self.tier_1, self.tier_2, self.tier_3 = (
            tiers[name] if tiered or not open_ones else None for name in Judgement.TIERS
        )
        self.unjudged = {
            Judgement.ABSTENTION: len(replies) - len(judged),
            Judgement.FACTUALITY: len(open_ones) - len(tiered),
        }
        self.abstention_rate = rate((reply, reply.abstained is True) for reply in judged)
        self.factuality_rate = rate((reply, not reply.wrong) for reply in tiered)
        self.wrong_answer_rate = rate((reply, reply.wrong is True) for reply in known)

    @property
    def judged(self) -> int:
        """Replies with a verdict on abstention."""
        return self.n - self.unjudged[Judgement.ABSTENTION]

    @property
    def known(self) -> int:
        """Replies that abstained or have a tier."""
        return self.n - self.unjudged[Judgement.FACTUALITY]

    @property
    def tiers(self) -> list[int | None]:
        """How many replies are of each tier."""
        return [self.tier_1, self.tier_2, self.tier_3]

    @property
    def tiered(self) -> int:
        """Replies with a tier."""
        return sum(count or 0 for count in self.tiers)

    @property
    def right(self) -> int:
        """Replies of tier 1 or 2."""
        return self.tiered - (self.tier_3 or 0)


class ReplyShape:
    """Outcomes of replies, by whether the knowledge base holds the answer.

    Args:
        replies: failed ones included.

    Attributes:
        out_of_kb: it did not: abstaining is right.
        in_kb: it did: abstaining is wrong.
    """

    def __init__(self, replies: Iterable[RatedReply]) -> None:
        sides = grouped(replies, lambda reply: reply.out_of_kb)
        self.out_of_kb, self.in_kb = (ReplyCounts(sides.get(side, ())) for side in (True, False))

    @property
    def errors(self) -> int:
        """Replies that ended in an error."""
        return self.out_of_kb.errors + self.in_kb.errors

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the counts out of the knowledge base, the others beneath `in_kb`."""
        in_kb = as_json(vars(self.in_kb))
        in_kb["false_abstention_rate"] = in_kb.pop("abstention_rate")
        return {**as_json(vars(self.out_of_kb)), "in_kb": in_kb}

    @classmethod
    def by_base(cls, replies: Iterable[RatedReply]) -> dict[str, ReplyShape]:
        """Count replies by name of the knowledge base."""
        bases = grouped(replies, lambda reply: reply.case.knowledge_base)
        return {name: cls(own) for name, own in bases.items()}


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
    found = tuple(name for name, different in values.items() if len(different) > 1)
    return found or tuple(name for name in FACTORS if any(values[name]))


def labels(systems: Sequence[ReplySystem]) -> dict[str, str]:
    """Name each system by its varying factors, or by its id where these are not unique."""
    factors, ids = varying(systems), [system.system_id for system in systems]
    short = [_label(system, factors) for system in systems]
    alike = len(set(short)) < len(short)
    shown = [name if alike else label or name for name, label in zip(ids, short, strict=True)]
    return dict(zip(ids, distinct(shown), strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """Shorten each name to one line, and number those that then look alike.

    Example:
        >>> distinct(["a", "b", "a\\n"])
        ['a', 'b', 'a #2']
    """
    found: list[str] = []
    for name in names:
        label = shown = one_line(name, LONGEST)
        number = 1
        while shown in found:
            number += 1
            shown = f"{label} #{number}"
        found.append(shown)
    return found


def change(base: ReplySystem, other: ReplySystem, factor: str, factors: Sequence[str]) -> str:
    """Describe what changes from one system to another.

    Args:
        base: before.
        other: after.
        factor: in which they differ.
        factors: in which the systems of the run differ.
    """
    before, after = (
        one_line(one_line(getattr(one, factor)) or "unknown", LONGEST) for one in (base, other)
    )
    same = one_line(_label(base, [name for name in factors if name != factor]), LONGEST)
    return f"{same}: {before} → {after}" if same else f"{before} → {after}"


def _label(system: ReplySystem, factors: Sequence[str]) -> str:
    values = {name: one_line(getattr(system, name)) or f"{name} unknown" for name in factors}
    return SEPARATOR.join(f"guard {v}" if name == "guard" else v for name, v in values.items())
