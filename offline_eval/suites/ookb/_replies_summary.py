"""The numbers of a run of replies: what `report.json` holds, each counted from the rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....guard.reply_check import DEFAULT_THRESHOLD
from ....guard.signals.support import SupportCheck
from ...judging.correction import corrected_rate
from ...judging.labelling import Agreement, Labels
from ...judging.validation import JudgeValidation
from ...report.cascade import cascade_counts
from ...report.document import as_json
from ...report.text import one_line
from ...run import Question
from ...run.grouping import error_types, grouped, most_frequent
from ...run.replies import Judgement, ReplyRow, ReplySystem
from ..judge_bias.artefact import JudgeBias
from ..parts import run_values
from ._cases import read_left_out_check
from ._replies_differences import adjust_p_values, compare_runs, compare_systems
from .replies import MAIN, OFF, Evidence, RatedReply, ReplyShape, distinct, labels, rate


class SystemSummary:
    """Outcomes of the replies of one system.

    Args:
        evidence: of the run.
        system: who was asked, and how.
        name: in tables and sentences.

    Attributes:
        every: its replies, those that ended in an error last.
        seen: the guard's policy is known to have seen some of the questions.
        cascade: which scorer decided how often; None unless the guard's scorer is a cascade.
        support: which of its replies their passages do not bear out.
        failed: share of the replies that ended in an error; None without replies.
    """

    def __init__(self, evidence: Evidence, system: ReplySystem, name: str) -> None:
        self.name, self.system = name, system
        self.every = own = [reply for reply in evidence.every if reply.system is system]
        replied = [reply for reply in own if reply.row.error is None]
        self.failed = (len(own) - len(replied)) / len(own) if own else None
        self.seen = system.guard != OFF and any(one.case.held_out is False for one in replied)
        self.support = support_counts(replied)
        self.cascade = cascade_counts((one.row.relevance_stage, one.row.route) for one in replied)

    def shape(self, base: str | None = None, *, unseen: bool = False) -> ReplyShape | None:
        """Count its replies; None where there are none.

        Args:
            base: name of the knowledge base that they are about; None for all together.
            unseen: leave out questions that the guard's policy was calibrated on.
        """
        found = [one for one in self.every if not (unseen and one.case.held_out is False)]
        found = [one for one in found if base in (None, one.case.knowledge_base)]
        return ReplyShape(found) if found else None

    def fair(self) -> ReplyShape | None:
        """Count its replies, to unseen questions where some were seen in calibration."""
        return self.shape(unseen=self.seen)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        unseen = (one for one in self.every if one.case.held_out is not False)
        further = {
            "cascade": self.cascade,
            "support": self.support if self.support["checked"] else None,
        }
        found = {
            **self.system.model_dump(mode="json"),
            "failed": self.failed,
            "replies": ReplyShape(self.every),
            "knowledge_bases": ReplyShape.by_base(self.every),
            "held_out": ReplyShape(unseen) if self.seen else None,
            **{name: value for name, value in further.items() if value is not None},
        }
        return {name: as_json(value) for name, value in found.items()}


class RepliesSummary:
    """All numbers of a run; the same folder gives the same numbers.

    Args:
        run_dir: of a run of replies, finished or not.
        compare: folders of other runs of replies.

    Attributes:
        evidence: what all this was computed from.
        names: of the systems in tables and sentences, by id.
        pooled: `all` systems are counted together, or `guarded` ones alone where some have a
            guard and some have none.
        shape: of these systems together; likewise knowledge bases, judges and topics.
        support: which of their replies the passages do not bear out.
        knowledge_bases: the same by name.
        judges: the same counts by each judge alone, on the replies that it judged.
        systems: in the order of the run.
        criteria: what judges said by failure kind and by the user's own criteria.
        differences: between systems and runs, p-values adjusted over all of them.
        differences_left_out: pairs of systems that were not compared.
        topics: what the questions are about; none where the input does not say.
        topics_by: field of the questions that says it: their topic, else their source.
        costs: per system, and per judge.
        judge_bias: measurements of judges that are stored with the run.
        judge_warnings: on the judges that gave a verdict.
        labels: people's; None where nobody labelled.
        left_out_check: None where it was not made.
        missing: number of replies that are missing in the run.
        some_seen: some questions are known from a guard's calibration.

    Raises:
        InputError: a file of a run is missing, broken or written by a newer knowgate, or a
            run that was to be compared has no system or question in common with this one.
    """

    def __init__(
        self, run_dir: str | os.PathLike[str], *, compare: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        self.evidence = evidence = Evidence(run_dir)
        run, systems = evidence.run, evidence.run.systems
        self.names = labels(tuple(systems.values()))
        # Replies with and without a guard are never counted together.
        guarded = {name for name, one in systems.items() if one.guard != OFF}
        mixed = 0 < len(guarded) < len(systems)
        together = [one for one in evidence.every if not mixed or one.system.system_id in guarded]
        replied = [one for one in together if one.row.error is None]
        self.pooled = "guarded" if mixed else "all"
        self.shape, self.knowledge_bases = ReplyShape(together), ReplyShape.by_base(together)
        self.support = support_counts(replied)
        judges = dict.fromkeys(judge for name in MAIN for judge in evidence.judges.get(name, ()))
        self.judges = {
            judge: ReplyShape(filter(None, (one.judged_by(judge) for one in together)))
            for judge in judges
        }
        self.systems = [SystemSummary(evidence, systems[one], self.names[one]) for one in systems]
        self.criteria = [
            criterion_counts(evidence, criterion, judge)
            for criterion, several in evidence.judges.items()
            if criterion not in MAIN
            for judge in several
        ]
        between, self.differences_left_out = compare_systems(evidence)
        others = [compare_runs(evidence, Evidence(other)) for other in compare]
        self.differences = [one for several in (*others, between) for one in several]
        adjust_p_values(self.differences)
        topics = {by: topics_by(by, run.questions, replied) for by in ("topic", "source")}
        self.topics_by = "topic" if topics["topic"] else "source"
        self.topics = topics[self.topics_by]
        by_system = grouped((one.row for one in evidence.every), lambda row: row.system_id)
        by_judge = grouped(run.judgements.values(), lambda verdict: verdict.judge)
        self.costs = {
            "systems": {name: cost_of(by_system.get(name, ())) for name in systems},
            "judges": {name: cost_of(by_judge[name]) for name in sorted(by_judge)},
        }
        self.judge_bias = JudgeBias.of_run(run.folder)
        self.judge_warnings = {
            name: bias.warning
            for name, bias in self.judge_bias.items()
            if bias.warning and name in by_judge
        }
        given = Labels.read(run.folder)
        labelled = any(one.outcome is not None for own in given.given.values() for one in own)
        self.labels = labels_of(evidence, given, self.judge_warnings) if labelled else None
        self.left_out_check = read_left_out_check(run.folder)
        self.missing = max(0, run.manifest.replies - len(run.replies))
        self.some_seen = any(one.seen for one in self.systems)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        manifest, shape = self.evidence.run.manifest, self.shape.to_dict()
        judges = {name: self.evidence.primary(name) for name in MAIN}
        rates = ("abstention_rate", "factuality_rate", "wrong_answer_rate")
        own = {
            "holds": manifest.holds,
            "questions": manifest.questions,
            "cases": manifest.cases,
            "replies_planned": manifest.replies,
            "replies_missing": self.missing,
            "pooled": self.pooled,
            "errors": len(self.evidence.failed),
            "errors_by_type": error_types(reply.row for reply in self.evidence.failed),
            **{name: shape[name] for name in rates},
            "false_abstention_rate": shape["in_kb"]["false_abstention_rate"],
            "unsupported": self.support["unsupported"],
            "replies": {**shape, "judge": judges, "judges": self.judges},
            "topics_by": self.topics_by if self.topics else None,
            "cost": self.costs,
            "judge_bias": dict(sorted(self.judge_bias.items())),
            "labels": None,
            "differences": [
                {**row, **differences}
                for one in self.differences
                for row in [dict(one)]
                for differences in [row.pop("differences")]
            ],
        }
        if self.labels is not None:
            own["labels"] = {**self.labels, "judges": list(map(_validation, self.labels["judges"]))}
        names = ("knowledge_bases", "systems", "criteria", "topics", "left_out_check")
        own |= {name: getattr(self, name) for name in names}
        return run_values(manifest, {name: as_json(value) for name, value in own.items()})


def cost_of(given: Sequence[ReplyRow] | Sequence[Judgement]) -> dict[str, Any]:
    """Add up what some rows cost; each number is None where no row was metered.

    Args:
        given: replies or verdicts, failed ones included.

    Returns:
        Number of rows, those metered, calls and tokens, median and 95 % quantile of the seconds
        from the first call to the reply, and errors by type.
    """
    known = {
        name: [value for row in given if (value := getattr(row, name, None)) is not None]
        for name in ("calls", "input_tokens", "output_tokens", "seconds")
    }
    seconds = known.pop("seconds")
    shares = {"seconds_p50": 0.5, "seconds_p95": 0.95}
    return {
        "rows": len(given),
        "metered": len(known["calls"]),
        **{name: sum(values) if values else None for name, values in known.items()},
        **{k: float(np.quantile(seconds, q)) if seconds else None for k, q in shares.items()},
        "errors": error_types(given),
    }


def criterion_counts(evidence: Evidence, criterion: str, judge: str) -> dict[str, Any]:
    """Count how often a judge gave each outcome of a criterion.

    Args:
        evidence: of the run.
        criterion: `failure` or a user's own.
        judge: who judged.

    Returns:
        JSON-ready: besides criterion and judge, under `estimate` whether these are offline
        estimates, and under `systems` per system how often each outcome occurs, the most frequent
        of all systems first; of out-of-KB replies for `failure`, of all for other criteria.
    """
    given = [
        (reply.row.system_id, verdict)
        for reply in evidence.replies
        if (verdict := reply.said.get(criterion, {}).get(judge)) is not None
        and (criterion != Judgement.FAILURE or (reply.out_of_kb and not reply.abstained))
    ]
    outcomes = most_frequent(str(verdict.outcome) for _, verdict in given)
    counts = Counter((system, str(verdict.outcome)) for system, verdict in given)
    systems = dict.fromkeys(system for system, _ in given)
    return {
        "criterion": criterion,
        "judge": judge,
        "estimate": any(verdict.estimate for _, verdict in given),
        "systems": {name: {one: counts[name, one] for one in outcomes} for name in systems},
    }


def topics_by(
    field: str, questions: Mapping[str, Question], replies: Sequence[RatedReply]
) -> list[dict[str, Any]]:
    """Group the replies by a field of their questions, the most questions first.

    Args:
        field: `topic` or `source`.
        questions: of the run, by id.
        replies: without errors.

    Returns:
        Per topic its name, the number of questions and the replies, counted. None of them where
        nearly every question has another source, or all are on one topic.
    """
    named = {name: one_line(getattr(one, field) or "") for name, one in questions.items()}
    different = len(set(named.values()) - {""})
    members = grouped(replies, lambda reply: named[reply.case.question_id] or "(none given)")
    if different < 2 or len(members) < 2 or (field == "source" and different > len(questions) / 2):
        return []
    found = [
        {
            "topic": name,
            "questions": len({reply.case.question_id for reply in own}),
            "replies": ReplyShape(own),
        }
        for name, own in zip(distinct(list(members)), members.values(), strict=True)
    ]
    return sorted(found, key=lambda topic: (-topic["questions"], topic["topic"]))


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
    return {
        "checked": len(flags),
        "unsupported": rate(flags),
        "found": dict(sorted(kinds.items())),
    }


# With fewer labels a corrected rate of one system says nothing.
_FEWEST_PER_SYSTEM = 30
# Rates of the report: name, criterion, outcomes that count, out of the KB or in it.
_RATES: tuple[tuple[str, str, Collection[str], bool], ...] = (
    ("abstention_rate", Judgement.ABSTENTION, ("yes",), True),
    ("factuality_rate", Judgement.FACTUALITY, Judgement.TIERS[:2], True),
    ("false_abstention_rate", Judgement.ABSTENTION, ("yes",), False),
)


def labels_of(evidence: Evidence, labels: Labels, warned: Mapping[str, str]) -> dict[str, Any]:
    """Return what people's labels say of a run.

    Args:
        evidence: the judged replies.
        labels: in the run folder.
        warned: what is known against judges, by name.

    Returns:
        How many labels each annotator gave; how far they agree, by criterion; each judge against
        them; and rates by the judge
        (`raw`) and corrected by the labels, whose intervals include the judge's error, all
        systems together first.
    """
    known = {name: (text,) for name, text in warned.items()}
    judges = JudgeValidation.of_judges(evidence.run, labels, known_of=known)
    for one in judges:
        for name in ("accuracy", "precision", "recall", "specificity", "kappa"):
            found = getattr(one, name)
            # No number of labels makes a judge certain.
            if found.low == found.high:
                setattr(one, name, replace(found, low=None, high=None))
    counts = {
        name: sum(label.outcome is not None for label in given)
        for name, given in labels.given.items()
    }
    names = [criterion.name for criterion in labels.criteria if labels.votes(criterion.name)]
    return {
        "annotators": counts,
        "agreement": {name: Agreement.of(labels, name, run=evidence.run) for name in names},
        "judges": judges,
        "corrected": list(_corrected(evidence, labels)),
    }


def _validation(found: JudgeValidation) -> dict[str, Any]:
    """JSON-ready; pairs of outcomes, which JSON cannot key by, become a list."""
    value = {name: of for name, of in vars(found).items() if name not in ("positive", "unsettled")}
    value["confusion"] = [
        {"people": people, "judge": judge, "replies": count}
        for (people, judge), count in found.confusion.items()
    ]
    return value


def _corrected(evidence: Evidence, labels: Labels) -> Iterator[dict[str, Any]]:
    for name, criterion, outcomes, out_of_kb in _RATES:
        judge, people = evidence.primary(criterion), labels.consensus(criterion)
        if judge is None or not people:
            continue
        judged = [
            reply
            for reply in evidence.replies
            if reply.out_of_kb is out_of_kb
            and judge in reply.said.get(criterion, {})
            and (criterion != Judgement.FACTUALITY or reply.tier is not None)
        ]
        for system in (None, *evidence.run.systems):
            own = [reply for reply in judged if system in (None, reply.system.system_id)]
            among = [reply.row.reply_id for reply in own]
            labelled = sum(reply_id in people for reply_id in among)
            if labelled >= (_FEWEST_PER_SYSTEM if system else 1):
                hits = [(one, one.verdicts[criterion].outcome in outcomes) for one in own]
                corrected = corrected_rate(
                    evidence.run, judge, criterion, outcomes, labels, among=among
                )
                yield {
                    "rate": name,
                    "system": system,
                    "judge": judge,
                    "labels": labelled,
                    "raw": rate(hits),
                    "corrected": corrected,
                }
