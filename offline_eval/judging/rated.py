"""Replies with the verdicts that count, how often each was given, and how far they can be trusted.

run folder ─► Evidence: a RatedReply per row ─► rates, agreement, rates corrected for judge error
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...calibration import Interval
from ...calibration.statistics import numbered, resampled_totals
from ...guard.reply_check import DEFAULT_THRESHOLD
from ...guard.signals.support import SupportCheck
from ..run import RepliesRun
from ..run.grouping import most_frequent
from ..run.questions import CaseKind
from ..run.replies import Judgement, ReplyRow
from .correction import corrected_rate
from .labelling import Agreement, Labels
from .validation import JudgeValidation

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


def rate(trials: Iterable[tuple[RatedReply, bool]]) -> Interval:
    """Estimate the share of replies that hit, each given with whether it does.

    Wilson's interval where each question stands once; otherwise, as where several systems
    answered the same question, a bootstrap that draws whole questions.
    """
    pairs = [(reply.case.question_id, hit) for reply, hit in trials]
    hits, owners = [hit for _, hit in pairs], numbered(name for name, _ in pairs)
    sizes = np.bincount(owners)
    if len(sizes) == len(pairs):
        return Interval.wilson(sum(hits), len(pairs))
    counts = np.stack([np.bincount(owners, weights=hits), sizes], axis=1).astype(np.float64)
    totals = resampled_totals(counts, resamples=_RESAMPLES, seed=_SEED)
    shares = totals[:, 0] / totals[:, 1]
    return Interval.of_draws(float(shares[0]), shares[1:], len(sizes))


# With fewer labels a corrected rate of one system says nothing.
_FEWEST_PER_SYSTEM = 30
# Rates of the report: name, criterion, outcomes that count, out of the KB or in it.
_RATES: tuple[tuple[str, str, Collection[str], bool], ...] = (
    ("abstention_rate", Judgement.ABSTENTION, ("yes",), True),
    ("factuality_rate", Judgement.FACTUALITY, Judgement.TIERS[:2], True),
    ("false_abstention_rate", Judgement.ABSTENTION, ("yes",), False),
)
_AGREEMENT = ("accuracy", "precision", "recall", "specificity", "kappa")


def labels_of(evidence: Evidence, warned: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what people's labels say of a run; None where nobody labelled.

    Args:
        evidence: the judged replies.
        warned: what is known against judges, by name.

    Returns:
        How many labels each annotator gave; how far they agree, by criterion; each judge against
        them; and rates by the judge (`raw`) and corrected by the labels, whose intervals include
        the judge's error, all systems together first.
    """
    labels = Labels.read(evidence.run.folder)
    given = {
        name: sum(label.outcome is not None for label in of) for name, of in labels.given.items()
    }
    if not any(given.values()):
        return None
    known = {name: (text,) for name, text in warned.items()}
    names = [criterion.name for criterion in labels.criteria if labels.votes(criterion.name)]
    return {
        "annotators": given,
        "agreement": {name: Agreement.of(labels, name, run=evidence.run) for name in names},
        "judges": [
            _validation(one)
            for one in JudgeValidation.of_judges(evidence.run, labels, known_of=known)
        ],
        "corrected": [
            found
            for wanted in _RATES
            for system in (None, *evidence.run.systems)
            for found in _corrected(evidence, labels, wanted, system)
        ],
    }


def _validation(found: JudgeValidation) -> dict[str, Any]:
    """Return the numbers of a judge; pairs of outcomes, which JSON cannot key by, as a list."""
    value = {name: of for name, of in vars(found).items() if name not in ("positive", "unsettled")}
    for name in _AGREEMENT:
        # No number of labels makes a judge certain.
        if value[name].low == value[name].high:
            value[name] = replace(value[name], low=None, high=None)
    value["confusion"] = [
        {"people": people, "judge": judge, "replies": count}
        for (people, judge), count in found.confusion.items()
    ]
    return value


def _corrected(
    evidence: Evidence,
    labels: Labels,
    wanted: tuple[str, str, Collection[str], bool],
    system: str | None,
) -> Iterator[dict[str, Any]]:
    """Yield a rate of a system, or of all, where there are labels enough."""
    name, criterion, outcomes, out_of_kb = wanted
    judge, people = evidence.primary(criterion), labels.consensus(criterion)
    judged = [
        reply
        for reply in evidence.replies
        if reply.out_of_kb is out_of_kb
        and judge in reply.said.get(criterion, {})
        and (criterion != Judgement.FACTUALITY or reply.tier is not None)
        and system in (None, reply.system.system_id)
    ]
    verdicts = {one.row.reply_id: str(one.verdicts[criterion].outcome) for one in judged}
    questions = {one.row.reply_id: one.case.question_id for one in judged}
    labelled = sum(reply_id in people for reply_id in verdicts)
    if judge is not None and labelled >= (_FEWEST_PER_SYSTEM if system else 1):
        yield {
            "rate": name,
            "system": system,
            "judge": judge,
            "labels": labelled,
            "raw": rate((one, one.verdicts[criterion].outcome in outcomes) for one in judged),
            "corrected": corrected_rate(labels, criterion, outcomes, verdicts, questions),
        }


def criteria_counts(evidence: Evidence) -> list[dict[str, Any]]:
    """Count how often each judge gave each outcome of a criterion besides the main ones.

    Returns:
        JSON-ready: besides criterion and judge, under `estimate` whether these are offline
        estimates, and under `systems` per system how often each outcome occurs, the most frequent
        of all systems first; of out-of-KB replies for `failure`, of all for other criteria.
    """
    found = []
    asked = [(name, judge) for name, of in evidence.judges.items() for judge in of]
    for criterion, judge in asked:
        if criterion in MAIN:
            continue
        given = [
            (reply.row.system_id, verdict)
            for reply in evidence.replies
            if (verdict := reply.said.get(criterion, {}).get(judge)) is not None
            and (criterion != Judgement.FAILURE or (reply.out_of_kb and not reply.abstained))
        ]
        outcomes = most_frequent(str(verdict.outcome) for _, verdict in given)
        counts = Counter((system, str(verdict.outcome)) for system, verdict in given)
        systems = dict.fromkeys(system for system, _ in given)
        counted = {
            "criterion": criterion,
            "judge": judge,
            "estimate": any(verdict.estimate for _, verdict in given),
            "systems": {name: {one: counts[name, one] for one in outcomes} for name in systems},
        }
        found.append(counted)
    return found


# First word of what a check found missing → column; anything else is an answer elsewhere.
_FOUND = {
    "number": "figures",
    "name": "names",
    "quotation": "quotations",
    "negation": "negations",
}


def support_counts(replies: Sequence[RatedReply]) -> dict[str, Any]:
    """Check replies that do not abstain against the passages in their prompts.

    Returns:
        How many were checked, the share of them with a sentence below the default threshold, and
        how many of these have a fault of each kind.
    """
    check, flags, kinds = SupportCheck(), list[tuple[RatedReply, bool]](), Counter[str]()
    for reply in replies:
        if (texts := reply.passages) is None:
            continue
        support = check.check(reply.row.response or "", texts, reply.question.question)
        if all(one.support is None for one in support.sentences):
            continue
        flags.append((reply, support.value < DEFAULT_THRESHOLD))
        below = support.unsupported(DEFAULT_THRESHOLD)
        missing = {what.split()[0] for one in below for what in one.missing}
        named = {_FOUND.get(what, "another's place") for what in missing}
        kinds.update(named or (["few words in common"] if below else ()))
    found = dict(sorted(kinds.items()))
    return {"checked": len(flags), "unsupported": rate(flags), "found": found}
