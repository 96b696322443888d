"""Judged replies: each reply of a run with its case and what judges made of it, and counts.

run folder ─► Evidence (replies, verdicts) ─► ReplyShape: rates out of the KB, and in it
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....calibration import Interval
from ....calibration.statistics import QuestionResamples
from ...report.document import as_json
from ...report.text import one_line
from ...run import Question, RepliesRun
from ...run.grouping import grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyCase, ReplyRow, ReplySystem

OFF = "off"
MAIN = (Judgement.ABSTENTION, Judgement.FACTUALITY)
_RESAMPLES, _SEED = 1000, 0


class JudgedReply:
    """A reply with its case, question, system and verdicts.

    Args:
        row: as stored.
        case: that it answers.
        question: likewise.
        system: that gave it.
        outcomes: the verdicts that count, by criterion.

    Attributes:
        abstained: None where no judge said.
        tier: of its factuality; None where it abstained, or no judge said.
        failure: kind of a wrong answer; None where no judge said.
        wrong: it states something unacceptable; None where that is not known.
        out_of_kb: the knowledge base does not hold the answer: abstaining is right.
    """

    def __init__(
        self,
        row: ReplyRow,
        case: ReplyCase,
        question: Question,
        system: ReplySystem,
        outcomes: Mapping[str, str | None],
    ) -> None:
        said, tier = outcomes.get(Judgement.ABSTENTION), outcomes.get(Judgement.FACTUALITY)
        self.row, self.case, self.question, self.system = row, case, question, system
        self.abstained = None if said is None else said == "yes"
        self.tier = tier if tier in Judgement.TIERS and not self.abstained else None
        self.failure = None if self.abstained else outcomes.get(Judgement.FAILURE)
        self.wrong = None if self.tier is None else self.tier == Judgement.TIERS[2]
        if self.abstained:
            self.wrong = False
        self.out_of_kb = case.kind is not CaseKind.IN_KB


class Evidence:
    """A run with the verdicts that count.

    Args:
        run_dir: folder of a run, finished or not.

    Attributes:
        run: as read.
        judges: per criterion, those who judged; the verdict of the first one counts.
        verdicts: judgements without error by reply and criterion, then by judge.
        replies: without error, in the order of the manifest's systems and of the cases.
        failed: replies that ended in an error, likewise.

    Raises:
        InputError: a file of the run is missing, broken or written by a newer knowgate.
    """

    def __init__(self, run_dir: str | os.PathLike[str]) -> None:
        self.run = run = RepliesRun.read(run_dir)
        self.verdicts: dict[tuple[str, str], dict[str, Judgement]] = {}
        for made in run.judgements.values():
            if made.error is None and made.outcome is not None:
                key = made.reply_id, made.criterion
                self.verdicts.setdefault(key, {})[made.judge] = made
        criteria = sorted({criterion for _, criterion in self.verdicts})
        self.judges = {name: run.judges_of(name) for name in criteria}
        # Replies stand in the order in which they finished, which chance decides.
        systems = {name: rank for rank, name in enumerate(run.systems)}
        cases = {name: rank for rank, name in enumerate(run.cases)}
        rows = sorted(
            run.replies.values(),
            key=lambda row: (systems[row.system_id], cases[row.case_id], row.reply_id),
        )
        judged = [self._judged(row, self._outcomes(row.reply_id)) for row in rows]
        self.replies = tuple(reply for reply in judged if reply.row.error is None)
        self.failed = tuple(reply for reply in judged if reply.row.error is not None)

    @property
    def every(self) -> tuple[JudgedReply, ...]:
        """All replies, those that ended in an error last."""
        return (*self.replies, *self.failed)

    def primary(self, criterion: str) -> str | None:
        """Return the judge whose verdict counts."""
        return next(iter(self.judges.get(criterion, ())), None)

    def said(self, reply: JudgedReply, criterion: str) -> Mapping[str, Judgement]:
        """Return the verdicts on a reply by judge."""
        return self.verdicts.get((reply.row.reply_id, criterion), {})

    def verdict(self, reply_id: str, criterion: str) -> Judgement | None:
        """Return the verdict of the first judge in rank who judged the reply.

        Where the first of all gives judgements, an offline estimate does not fill its gaps.
        """
        found = self.verdicts.get((reply_id, criterion), {})
        for rank, judge in enumerate(self.judges.get(criterion, ())):
            if judge in found and (rank == 0 or not found[judge].estimate):
                return found[judge]
        return None

    def judged_by(self, judge: str, among: Iterable[JudgedReply]) -> list[JudgedReply]:
        """Return the replies that a judge judged, with the verdicts of this judge.

        Whether they abstained is taken from the first judge of that where this one does
        not say.
        """
        own = []
        for reply in among:
            found = {
                criterion: verdicts[judge].outcome
                for criterion in self.judges
                if judge in (verdicts := self.said(reply, criterion))
            }
            if reply.row.error is None and not found.keys().isdisjoint(MAIN):
                first = self._outcomes(reply.row.reply_id).get(Judgement.ABSTENTION)
                own.append(self._judged(reply.row, {Judgement.ABSTENTION: first, **found}))
        return own

    def _outcomes(self, reply_id: str) -> dict[str, str | None]:
        """Return the verdicts that count, by criterion."""
        found = {criterion: self.verdict(reply_id, criterion) for criterion in self.judges}
        return {name: None if one is None else one.outcome for name, one in found.items()}

    def _judged(self, row: ReplyRow, outcomes: Mapping[str, str | None]) -> JudgedReply:
        run, system = self.run, self.run.systems[row.system_id]
        return JudgedReply(row, run.case_of(row), run.question_of(row), system, outcomes)


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

    def __init__(self, given: Sequence[JudgedReply]) -> None:
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
    def tiers(self) -> tuple[int | None, int | None, int | None]:
        """How many replies are of each tier."""
        return self.tier_1, self.tier_2, self.tier_3

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

    def __init__(self, replies: Iterable[JudgedReply]) -> None:
        sides: dict[bool, list[JudgedReply]] = {True: [], False: []}
        for reply in replies:
            sides[reply.out_of_kb].append(reply)
        self.out_of_kb, self.in_kb = ReplyCounts(sides[True]), ReplyCounts(sides[False])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the counts out of the knowledge base, the others beneath `in_kb`."""
        in_kb = as_json(vars(self.in_kb))
        in_kb["false_abstention_rate"] = in_kb.pop("abstention_rate")
        return {**as_json(vars(self.out_of_kb)), "in_kb": in_kb}

    @classmethod
    def by_base(cls, replies: Iterable[JudgedReply]) -> dict[str, ReplyShape]:
        """Count replies by name of the knowledge base."""
        bases = grouped(replies, lambda reply: reply.case.knowledge_base)
        return {name: cls(own) for name, own in bases.items()}


def rate(trials: Iterable[tuple[JudgedReply, bool]]) -> Interval:
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


FACTORS = ("model", "retrieval", "prompt", "guard")
SEPARATOR = " \N{MIDDLE DOT} "
_LONGEST = 60
# What may stand in a plot: nothing that its maker reads as markup or as a colour.
_PLAIN = re.compile(r"[\w@=.,+:/ \N{MIDDLE DOT}-]{1,64}", re.ASCII)
_UNKNOWN = "unknown"


def varying(systems: Sequence[ReplySystem]) -> tuple[str, ...]:
    """List the factors in which the systems differ; of a single system, all known ones."""
    values = {name: {getattr(system, name) for system in systems} for name in FACTORS}
    found = tuple(name for name, different in values.items() if len(different) > 1)
    return found or tuple(name for name in FACTORS if any(values[name]))


def labels(systems: Sequence[ReplySystem]) -> dict[str, str]:
    """Name each system by its varying factors, or by its id where these are not unique."""
    factors, ids = varying(systems), [system.system_id for system in systems]
    short = [SEPARATOR.join(_value(system, name) for name in factors) for system in systems]
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
        label = shown = one_line(name, _LONGEST)
        number = 1
        while shown in found:
            number += 1
            shown = f"{label} #{number}"
        found.append(shown)
    return found


def change(base: ReplySystem, other: ReplySystem, factor: str, factors: Sequence[str]) -> str:
    """Describe what changes from one system to another; empty if that looks alike.

    Args:
        base: before.
        other: after.
        factor: in which they differ.
        factors: in which the systems of the run differ.
    """
    before, after = (
        one_line(one_line(getattr(one, factor)) or _UNKNOWN, _LONGEST) for one in (base, other)
    )
    if before == after:
        return ""
    same = SEPARATOR.join(_value(base, name) for name in factors if name != factor)
    return f"{one_line(same, _LONGEST)}: {before} → {after}" if same else f"{before} → {after}"


def shared_factors(systems: Sequence[ReplySystem]) -> list[str]:
    """List what all systems have in common, each as name and value."""
    factors = set(varying(systems))
    return [
        f"{name} {one_line(getattr(systems[0], name))}"
        for name in FACTORS
        if systems and name not in factors and getattr(systems[0], name)
    ]


def plain_labels(names: Mapping[str, str]) -> dict[str, str]:
    """Replace labels that cannot stand in a plot by numbers.

    Example:
        >>> plain_labels({"a": "direct", "b": "<script>"})
        {'a': 'direct', 'b': 'system 2'}
    """
    return {
        system: label if _PLAIN.fullmatch(label) else f"system {position}"
        for position, (system, label) in enumerate(names.items(), start=1)
    }


def _value(system: ReplySystem, name: str) -> str:
    value = one_line(getattr(system, name)) or f"{name} {_UNKNOWN}"
    return f"guard {value}" if name == "guard" else value
