"""The numbers of a run of replies: what `report.json` holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...._version import __version__
from ...report import CascadeStages, Document
from ...run import (
    Judgement,
    ReplySystem,
)
from ..judge_bias import JudgeBias
from ._replies_costs import Cost, compare_runs, judge_costs, reply_costs
from ._replies_differences import Comparison, compare_systems, with_holm
from ._replies_evidence import (
    CriterionCounts,
    Evidence,
    JudgedReply,
    ReplyShape,
    criterion_counts,
    error_types,
    judge_counts,
    read_evidence,
    shape_of,
)
from ._replies_labels import AnsweredElsewhere, LabelsSummary, read_left_out_check, summarise_labels
from ._replies_names import OFF
from ._replies_topics import Embed, Topics, topics_of


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """Outcomes of the replies of one system.

    Attributes:
        system: who was asked, and how.
        shape: of all its replies.
        knowledge_bases: the same by name of the knowledge base.
        held_out: the same over questions that the guard's policy had not seen, perhaps
            none; None where it is not known to have seen any, or nothing stands in front.
        held_out_bases: the same by name of the knowledge base, of those with such a
            question; empty likewise.
        cascade: which scorer decided how often; None unless the guard's scorer is a cascade.
    """

    system: ReplySystem
    shape: ReplyShape
    knowledge_bases: Mapping[str, ReplyShape]
    held_out: ReplyShape | None
    held_out_bases: Mapping[str, ReplyShape]
    cascade: CascadeStages | None = None

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

    @property
    def failed(self) -> float | None:
        """Share of the replies that ended in an error; None without replies."""
        found = self.shape.out_of_kb, self.shape.in_kb
        failed = sum(counts.errors for counts in found)
        total = failed + sum(counts.n for counts in found)
        return failed / total if total else None

    def numbers(self) -> dict[str, Any]:
        """Return the system's numbers under the names that the report has for the whole run."""
        shape = self.shape.to_dict()
        false_abstention = shape["in_kb"]["false_abstention_rate"]
        return {**shape, "false_abstention_rate": false_abstention, **self.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **self.system.model_dump(mode="json"),
            "failed": self.failed,
            "replies": self.shape.to_dict(),
            "knowledge_bases": {
                name: shape.to_dict() for name, shape in self.knowledge_bases.items()
            },
            "held_out": None if self.held_out is None else self.held_out.to_dict(),
            **({} if self.cascade is None else {"cascade": self.cascade.to_dict()}),
        }


@dataclass(frozen=True, slots=True)
class RepliesSummary:
    """All numbers of a run.

    Attributes:
        evidence: what all this was computed from.
        pooled: `all` systems are counted together, or `guarded` ones alone where some have a
            guard and some have none.
        shape: of these systems together; likewise knowledge bases, judges and topics.
        knowledge_bases: the same by name.
        judges: the same counts by each judge alone.
        systems: in the order of the run.
        criteria: what judges said by failure kind and by the user's own criteria.
        differences: between systems and runs, p-values adjusted over all of them.
        differences_left_out: pairs of systems that were not compared.
        topics: what the questions are about.
        costs: per system.
        judge_costs: per judge.
        labels: people's; None where nobody labelled.
        left_out_check: None where it was not made.
    """

    evidence: Evidence
    pooled: str
    shape: ReplyShape
    knowledge_bases: Mapping[str, ReplyShape]
    judges: Mapping[str, ReplyShape]
    systems: tuple[SystemSummary, ...]
    criteria: tuple[CriterionCounts, ...]
    differences: tuple[Comparison, ...]
    differences_left_out: int
    topics: Topics
    costs: Mapping[str, Cost]
    judge_costs: Mapping[str, Cost]
    labels: LabelsSummary | None
    left_out_check: tuple[AnsweredElsewhere, ...] | None

    @property
    def missing(self) -> int:
        """Number of replies that are missing in the run."""
        return max(0, self.evidence.run.manifest.replies - len(self.evidence.run.replies))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        manifest = self.evidence.run.manifest
        replies = {
            **self.shape.to_dict(),
            "judge": {
                name: self.evidence.primary(name)
                for name in (Judgement.ABSTENTION, Judgement.FACTUALITY)
            },
            "judges": {name: shape.to_dict() for name, shape in self.judges.items()},
        }
        return {
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
            "errors_by_type": error_types(self.evidence.failed),
            "abstention_rate": replies["abstention_rate"],
            "factuality_rate": replies["factuality_rate"],
            "wrong_answer_rate": replies["wrong_answer_rate"],
            "false_abstention_rate": replies["in_kb"]["false_abstention_rate"],
            "replies": replies,
            "knowledge_bases": {
                name: shape.to_dict() for name, shape in self.knowledge_bases.items()
            },
            "systems": [system.to_dict() for system in self.systems],
            "criteria": [found.to_dict() for found in self.criteria],
            "differences": [found.to_dict() for found in self.differences],
            "topics": [topic.to_dict() for topic in self.topics.topics],
            "topics_by": self.topics.how if self.topics.topics else None,
            "cost": {
                "systems": {name: cost.to_dict() for name, cost in self.costs.items()},
                "judges": {name: cost.to_dict() for name, cost in self.judge_costs.items()},
            },
            "judge_bias": {
                name: bias.model_dump(mode="json")
                for name, bias in sorted(JudgeBias.of_run(self.evidence.run.folder).items())
            },
            "labels": None if self.labels is None else self.labels.to_dict(),
            "left_out_check": None
            if self.left_out_check is None
            else [found.to_dict() for found in self.left_out_check],
            "settings": dict(manifest.settings),
            "inputs": [file.model_dump(mode="json") for file in manifest.inputs],
        }


def summarise_replies(
    run_dir: str | os.PathLike[str],
    *,
    compare: Sequence[str | os.PathLike[str]] = (),
    embed: Embed | None = None,
) -> RepliesSummary:
    """Summarise a run folder; the same folder gives the same numbers.

    Args:
        run_dir: of a run of replies, finished or not.
        compare: folders of other runs of replies.
        embed: for topics that no input names; None: the embedded model.

    Raises:
        InputError: a file of a run is missing, broken or written by a newer knowgate, or a
            run that was to be compared has no system or question in common with this one.
    """
    evidence = read_evidence(run_dir)
    others = [(read_evidence(other), os.path.basename(os.path.abspath(other))) for other in compare]
    between, left_out = compare_systems(evidence.replies, tuple(evidence.run.systems.values()))
    runs = [found for other, name in others for found in compare_runs(evidence, other, name)]
    pooled, together = _pooled(evidence)
    return RepliesSummary(
        evidence=evidence,
        pooled=pooled,
        shape=shape_of(together.replies, together.failed),
        knowledge_bases=_by_knowledge_base(together.replies, together.failed),
        judges=judge_counts(together),
        systems=tuple(_system(evidence, system) for system in evidence.run.systems.values()),
        criteria=tuple(criterion_counts(evidence)),
        differences=tuple(with_holm([*runs, *between])),
        differences_left_out=left_out,
        topics=topics_of(evidence.run.questions, together.replies, embed=embed),
        costs=reply_costs(evidence),
        judge_costs=judge_costs(evidence),
        labels=summarise_labels(evidence),
        left_out_check=read_left_out_check(evidence.run),
    )


def _pooled(evidence: Evidence) -> tuple[str, Evidence]:
    """Return the replies that are counted together: never those with and without a guard."""
    guarded = {name for name, one in evidence.run.systems.items() if one.guard != OFF}
    if not 0 < len(guarded) < len(evidence.run.systems):
        return "all", evidence

    def kept(replies: Sequence[JudgedReply]) -> tuple[JudgedReply, ...]:
        return tuple(reply for reply in replies if reply.system.system_id in guarded)

    own = replace(evidence, replies=kept(evidence.replies), failed=kept(evidence.failed))
    return "guarded", own


def _system(evidence: Evidence, system: ReplySystem) -> SystemSummary:
    replies = [reply for reply in evidence.replies if reply.system is system]
    failed = [reply for reply in evidence.failed if reply.system is system]
    unseen = [reply for reply in replies if reply.case.held_out is not False]
    unseen_failed = [reply for reply in failed if reply.case.held_out is not False]
    guarded = system.guard != OFF and len(unseen) < len(replies)
    return SystemSummary(
        system=system,
        shape=shape_of(replies, failed),
        knowledge_bases=_by_knowledge_base(replies, failed),
        held_out=shape_of(unseen, unseen_failed) if guarded else None,
        held_out_bases=_by_knowledge_base(unseen, unseen_failed) if guarded else {},
        cascade=CascadeStages.of((one.row.relevance_stage, one.row.route) for one in replies),
    )


def _by_knowledge_base(
    replies: Sequence[JudgedReply], failed: Sequence[JudgedReply]
) -> dict[str, ReplyShape]:
    names = dict.fromkeys(reply.case.knowledge_base for reply in (*replies, *failed))
    return {
        name: shape_of(
            [reply for reply in replies if reply.case.knowledge_base == name],
            [reply for reply in failed if reply.case.knowledge_base == name],
        )
        for name in names
    }
