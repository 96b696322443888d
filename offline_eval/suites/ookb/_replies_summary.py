"""The numbers of a run of replies: what `report.json` holds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...._version import __version__
from ...report.cascade import CascadeStages
from ...report.document import Document, as_json
from ...report.text import one_line
from ...run import Question
from ...run.grouping import error_types, grouped, most_frequent
from ...run.replies import Judgement, ReplyRow, ReplySystem
from ..judge_bias.artefact import JudgeBias
from ._left_out_check import read_left_out_check
from ._replies import (
    MAIN,
    OFF,
    Evidence,
    JudgedReply,
    ReplyShape,
    distinct,
    labels,
)
from ._replies_differences import adjust_p_values, compare_runs, compare_systems
from ._replies_labels import LabelsSummary
from ._replies_support import SupportSummary

_NOT_GIVEN = "(none given)"


class Cost:
    """Cost of some rows; each number is None where no row was metered.

    Args:
        given: replies or verdicts, failed ones included.

    Attributes:
        rows: number of them.
        metered: rows of which the calls are known.
        calls: of language models.
        input_tokens: of these calls.
        output_tokens: likewise.
        seconds_p50: median from the first call to the reply.
        seconds_p95: that 95 % of the replies stay under.
        errors: by type, the most frequent first.
    """

    def __init__(self, given: Sequence[ReplyRow] | Sequence[Judgement]) -> None:
        known = {
            name: [value for row in given if (value := getattr(row, name, None)) is not None]
            for name in ("calls", "input_tokens", "output_tokens", "seconds")
        }
        seconds = known.pop("seconds")
        self.rows, self.metered = len(given), len(known["calls"])
        self.calls, self.input_tokens, self.output_tokens = (
            sum(values) if values else None for values in known.values()
        )
        self.seconds_p50 = float(np.quantile(seconds, 0.5)) if seconds else None
        self.seconds_p95 = float(np.quantile(seconds, 0.95)) if seconds else None
        self.errors = error_types(given)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return vars(self)

    @property
    def known(self) -> bool:
        """Whether anything is known of what was spent."""
        known = (self.calls, self.input_tokens, self.output_tokens, self.seconds_p50)
        return any(one is not None for one in known)


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
    counts: dict[str, Counter[str]] = {}
    found: dict[str, Any] = {"criterion": criterion, "judge": judge, "estimate": False}
    for reply in evidence.replies:
        verdict = evidence.said(reply, criterion).get(judge)
        about = criterion != Judgement.FAILURE or (reply.out_of_kb and not reply.abstained)
        if verdict is not None and about:
            counts.setdefault(reply.row.system_id, Counter())[str(verdict.outcome)] += 1
            found["estimate"] |= verdict.estimate
    outcomes = most_frequent(outcome for own in counts.values() for outcome in own.elements())
    systems = {name: {one: own[one] for one in outcomes} for name, own in counts.items()}
    return {**found, "systems": systems}


class SystemSummary:
    """Outcomes of the replies of one system.

    Args:
        evidence: of the run.
        system: who was asked, and how.
        name: in tables and sentences.

    Attributes:
        shape: of all its replies.
        knowledge_bases: the same by name of the knowledge base.
        held_out: the same over questions that the guard's policy had not seen, perhaps
            none; None where it is not known to have seen any, or nothing stands in front.
        held_out_bases: the same by name of the knowledge base, of those with such a
            question; empty likewise.
        cascade: which scorer decided how often; None unless the guard's scorer is a cascade.
        support: which of its replies their passages do not bear out.
        failed: share of the replies that ended in an error; None without replies.
    """

    def __init__(self, evidence: Evidence, system: ReplySystem, name: str) -> None:
        own = [reply for reply in evidence.every if reply.system is system]
        replied = [reply for reply in own if reply.row.error is None]
        unseen = [reply for reply in own if reply.case.held_out is not False]
        guarded = system.guard != OFF and any(one.case.held_out is False for one in replied)
        self.name, self.system = name, system
        self.shape, self.knowledge_bases = ReplyShape(own), ReplyShape.by_base(own)
        self.failed = (len(own) - len(replied)) / len(own) if own else None
        self.held_out = ReplyShape(unseen) if guarded else None
        self.held_out_bases = ReplyShape.by_base(unseen) if guarded else {}
        self.support = SupportSummary(evidence, replied)
        self.cascade = CascadeStages.of((one.row.relevance_stage, one.row.route) for one in replied)

    def fair(self, base: str | None) -> ReplyShape | None:
        """Return the rates over unseen questions where some were seen in calibration.

        Args:
            base: name of a knowledge base; None: all together.

        Returns:
            None where no such question was asked.
        """
        if self.held_out is None:
            return self.shape if base is None else self.knowledge_bases.get(base)
        if base is None:
            return self.held_out if self.held_out_bases else None
        return self.held_out_bases.get(base)

    def numbers(self) -> dict[str, Any]:
        """Return the system's numbers under the names that the report has for the whole run."""
        shape, unsupported = self.shape.to_dict(), self.support.unsupported.to_dict()
        false_abstention = {"false_abstention_rate": shape["in_kb"]["false_abstention_rate"]}
        return {**shape, **false_abstention, **self.to_dict(), "unsupported": unsupported}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        cascade = {} if self.cascade is None else {"cascade": self.cascade.to_dict()}
        return {
            **self.system.model_dump(mode="json"),
            "failed": self.failed,
            "replies": self.shape.to_dict(),
            "knowledge_bases": as_json(self.knowledge_bases),
            "held_out": as_json(self.held_out),
            **cascade,
            **({"support": self.support.to_dict()} if self.support.checked else {}),
        }


@dataclass(frozen=True, slots=True)
class Topic:
    """Outcomes of the questions on one topic, all systems together.

    Attributes:
        topic: its name.
        questions: on it.
        replies: to them, counted.
    """

    topic: str
    questions: int
    replies: ReplyShape

    @classmethod
    def of_field(
        cls, field: str, questions: Mapping[str, Question], replies: Sequence[JudgedReply]
    ) -> list[Topic]:
        """Group the replies by a field of their questions, the most questions first.

        Args:
            field: `topic` or `source`.
            questions: of the run, by id.
            replies: without errors.

        Returns:
            None of them where nearly every question has another source, or all are on one topic.
        """
        named = {name: one_line(getattr(one, field) or "") for name, one in questions.items()}
        different = len(set(named.values()) - {""})
        if different < 2 or (field == "source" and different > len(questions) / 2):
            return []
        members = grouped(replies, lambda reply: named[reply.case.question_id] or _NOT_GIVEN)
        found = [
            cls(name, len({reply.case.question_id for reply in own}), ReplyShape(own))
            for name, own in zip(distinct(list(members)), members.values(), strict=True)
        ]
        found.sort(key=lambda topic: (-topic.questions, topic.topic))
        return found if len(found) > 1 else []


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
        self.pooled = "guarded" if mixed else "all"
        self.shape, self.knowledge_bases = ReplyShape(together), ReplyShape.by_base(together)
        replied = [one for one in together if one.row.error is None]
        self.support = SupportSummary(evidence, replied)
        judges = dict.fromkeys(judge for name in MAIN for judge in evidence.judges.get(name, ()))
        self.judges = {name: ReplyShape(evidence.judged_by(name, together)) for name in judges}
        self.systems = [
            SystemSummary(evidence, systems[one], name) for one, name in self.names.items()
        ]
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
        topics = {by: Topic.of_field(by, run.questions, replied) for by in ("topic", "source")}
        self.topics_by = "topic" if topics["topic"] else "source"
        self.topics = topics[self.topics_by]
        by_system = grouped((one.row for one in evidence.every), lambda row: row.system_id)
        by_judge = grouped(run.judgements.values(), lambda verdict: verdict.judge)
        # In the order of the run, and by name.
        self.costs = {
            "systems": {name: Cost(by_system.get(name, ())) for name in systems},
            "judges": {name: Cost(by_judge[name]) for name in sorted(by_judge)},
        }
        self.judge_bias = JudgeBias.of_run(run.folder)
        heard = {verdict.judge for verdict in run.judgements.values()}
        self.judge_warnings = {
            name: bias.warning
            for name, bias in self.judge_bias.items()
            if bias.warning and name in heard
        }
        self.labels = LabelsSummary.of(evidence, self.judge_warnings)
        self.left_out_check = read_left_out_check(run.folder)
        self.missing = max(0, run.manifest.replies - len(run.replies))
        self.some_seen = any(one.held_out is not None for one in self.systems)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        manifest, shape = self.evidence.run.manifest, self.shape.to_dict()
        judges = {name: self.evidence.primary(name) for name in MAIN}
        rates = ("abstention_rate", "factuality_rate", "wrong_answer_rate")
        found = {
            "schema_version": Document.SCHEMA_VERSION,
            "suite": "ookb",
            "holds": manifest.holds,
            "created_by": f"knowgate {__version__}",
            "run_created_by": manifest.created_by,
            "questions": manifest.questions,
            "cases": manifest.cases,
            "replies_planned": manifest.replies,
            "replies_missing": self.missing,
            "pooled": self.pooled,
            "errors": len(self.evidence.failed),
            "errors_by_type": error_types(reply.row for reply in self.evidence.failed),
            **{name: shape[name] for name in rates},
            "false_abstention_rate": shape["in_kb"]["false_abstention_rate"],
            "unsupported": self.support.unsupported,
            "replies": {**shape, "judge": judges, "judges": self.judges},
            "knowledge_bases": self.knowledge_bases,
            "systems": self.systems,
            "criteria": self.criteria,
            "differences": self.differences,
            "topics": self.topics,
            "topics_by": self.topics_by if self.topics else None,
            "cost": self.costs,
            "judge_bias": dict(sorted(self.judge_bias.items())),
            "labels": self.labels,
            "left_out_check": self.left_out_check,
            "settings": dict(manifest.settings),
            "inputs": manifest.inputs,
        }
        return {name: as_json(value) for name, value in found.items()}
