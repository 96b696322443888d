"""The numbers of a run of replies: what `report.json` and `replies.csv` hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...judging.rated import (
    MAIN,
    Evidence,
    RatedReply,
    criteria_counts,
    labels_of,
    rate,
    support_counts,
)
from ...report.document import as_json
from ...report.text import one_line
from ...report.what_if import cascade_counts
from ...run import Question
from ...run.grouping import error_types, grouped, value_at
from ...run.replies import Judgement, ReplyRow, ReplySystem
from ...systems.guards import OFF
from ...systems.leaving_out import read_left_out_check
from ..judge_bias.artefact import JudgeBias
from ..parts import run_values
from ._replies_differences import (
    adjust_p_values,
    compare_runs,
    compare_systems,
    distinct,
    labels,
    varying,
)

# Outcomes of replies as `report.json` has them; see `count_replies`.
Counts = dict[str, Any]


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


class RepliesSummary:
    """All numbers of a run; the same folder gives the same numbers.

    Args:
        run_dir: of a run of replies, finished or not.
        compare: folders of other runs of replies.

    Attributes:
        evidence: what all this was computed from.
        factors: in which the systems differ; of a single one, all that are known.
        names: of the systems in tables and sentences, by id.
        values: as `report.json` has them, with intervals and records in the place of their JSON.
            Under `pooled` stands whether `all` systems are counted together, or `guarded` ones
            alone where some have a guard and some have none; `replies`, `knowledge_bases`,
            `judges` and `topics` are about these.
        differences_left_out: pairs of systems that were not compared.
        judge_warnings: on the judges that gave a verdict.

    Raises:
        InputError: a file of a run is missing, broken or written by a newer knowgate, or a
            run that was to be compared has no system or question in common with this one.
    """

    def __init__(
        self, run_dir: str | os.PathLike[str], *, compare: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        self.evidence = evidence = Evidence(run_dir)
        run, systems = evidence.run, evidence.run.systems
        self.run = run
        self.factors = varying(tuple(systems.values()))
        self.names = labels(tuple(systems.values()), self.factors)
        between, self.differences_left_out = compare_systems(evidence)
        others = [compare_runs(evidence, Evidence(other)) for other in compare]
        differences = [one for several in (*others, between) for one in several]
        adjust_p_values(differences)
        judged = {verdict.judge for verdict in run.judgements.values()}
        biases = JudgeBias.of_run(run.folder)
        told = {name: bias.warning for name, bias in biases.items() if name in judged}
        self.judge_warnings = {name: text for name, text in told.items() if text}
        manifest = run.manifest
        self.values: dict[str, Any] = {
            "holds": manifest.holds,
            "questions": manifest.questions,
            "cases": manifest.cases,
            "replies_planned": manifest.replies,
            "replies_missing": max(0, manifest.replies - len(run.replies)),
            "errors": len(evidence.failed),
            "errors_by_type": error_types(reply.row for reply in evidence.failed),
            **_together(evidence),
            "cost": costs(evidence),
            "judge_bias": dict(sorted(biases.items())),
            "labels": labels_of(evidence, self.judge_warnings),
            "differences": differences,
            "systems": [system_values(evidence, system) for system in systems.values()],
            "criteria": criteria_counts(evidence),
            "left_out_check": read_left_out_check(run.folder),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        return run_values(self.evidence.run.manifest, as_json(self.values))


def _together(evidence: Evidence) -> dict[str, Any]:
    """Count the replies of systems together; with and without a guard are never mixed."""
    systems = evidence.run.systems
    guarded = {name for name, one in systems.items() if one.guard != OFF}
    mixed = 0 < len(guarded) < len(systems)
    replies = [one for one in evidence.every if not mixed or one.system.system_id in guarded]
    replied = [one for one in replies if one.row.error is None]
    judges = dict.fromkeys(judge for name in MAIN for judge in evidence.judges.get(name, ()))
    alone = {judge: [one.judged_by(judge) for one in replies] for judge in judges}
    by_topic, by_source = (
        topics_by(name, evidence.run.questions, replied) for name in ("topic", "source")
    )
    counts = count_replies(replies)
    return {
        "pooled": "guarded" if mixed else "all",
        **{name: value for name, value in counts.items() if name.endswith("_rate")},
        "false_abstention_rate": counts["in_kb"]["false_abstention_rate"],
        "unsupported": support_counts(replied)["unsupported"],
        "replies": {
            **counts,
            "judge": {name: evidence.primary(name) for name in MAIN},
            "judges": {name: count_replies(filter(None, own)) for name, own in alone.items()},
        },
        "topics_by": "topic" if by_topic else "source" if by_source else None,
        "topics": by_topic or by_source,
        "knowledge_bases": count_by_base(replies),
    }


def system_values(evidence: Evidence, system: ReplySystem) -> dict[str, Any]:
    """Count the replies of one system.

    Returns:
        The system; the share of its replies that ended in an error, None without replies; all
        replies counted, also by knowledge base; under `held_out` those to questions that the
        guard's policy was not calibrated on, None where it is not known to have seen some; which
        scorer decided how often, of a cascade; and which replies their passages do not bear out.
    """
    own = [reply for reply in evidence.every if reply.system is system]
    replied = [reply for reply in own if reply.row.error is None]
    seen = system.guard != OFF and any(one.case.held_out is False for one in replied)
    unseen = (one for one in own if one.case.held_out is not False)
    support = support_counts(replied)
    cascade = cascade_counts((one.row.relevance_stage, one.row.route) for one in replied)
    further = {"cascade": cascade, "support": support if support["checked"] else None}
    return {
        **system.model_dump(mode="json"),
        "failed": (len(own) - len(replied)) / len(own) if own else None,
        "replies": count_replies(own),
        "knowledge_bases": count_by_base(own),
        "held_out": count_replies(unseen) if seen else None,
        **{name: value for name, value in further.items() if value is not None},
    }


def costs(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """Add up what the replies of each system cost, and the verdicts of each judge."""
    rows = grouped((one.row for one in evidence.every), lambda row: row.system_id)
    verdicts = grouped(evidence.run.judgements.values(), lambda verdict: verdict.judge)
    return {
        "systems": {name: cost_of(rows.get(name, ())) for name in evidence.run.systems},
        "judges": {name: cost_of(verdicts[name]) for name in sorted(verdicts)},
    }


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


def topics_by(
    field: str,
    questions: Mapping[str, Question],
    replies: Sequence[RatedReply],
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
            "replies": count_replies(own),
        }
        for name, own in zip(distinct(list(members)), members.values(), strict=True)
    ]
    return sorted(found, key=lambda topic: (-topic["questions"], topic["topic"]))


# Columns of `replies.csv`, and where a reply has them; empty where something on the way is None.
_COLUMNS = {
    "reply_id": "row.reply_id",
    "system_id": "system.system_id",
    **{name: f"system.{name}" for name in ("model", "prompt", "retrieval", "guard", "replayed")},
    "case_id": "case.case_id",
    "question_id": "case.question_id",
    "kind": "case.kind",
    "knowledge_base": "case.knowledge_base",
    "topic": "question.topic",
    "held_out": "case.held_out",
    "question": "question.question",
    "expected_answer": "question.answer",
    "context": "row.context.kind",
    "context_passages": "row.context.passages",
    "response": "row.response",
    "citation": "row.citation",
    "route": "row.route",
    **{name: f"row.{name}" for name in ("reason", "relevance", "confidence")},
    **{name: f"row.{name}" for name in ("calls", "input_tokens", "output_tokens", "seconds")},
    "error_type": "row.error.type",
    "error": "row.error.detail",
    "abstained": "abstained",
    "factuality": "tier",
    "failure": "failure",
}


def reply_rows(evidence: Evidence) -> Iterator[list[object]]:
    """Yield the lines of `replies.csv`: the header and a row per reply.

    There is one more column per criterion and judge.
    """
    verdicts = [(name, judge) for name, judges in evidence.judges.items() for judge in judges]
    yield [*_COLUMNS, *(f"{criterion}:{judge}" for criterion, judge in verdicts)]
    for reply in evidence.every:
        found = (reply.said.get(criterion, {}).get(judge) for criterion, judge in verdicts)
        own = (value_at(reply, path) for path in _COLUMNS.values())
        yield [
            *("; ".join(value) if isinstance(value, tuple) else value for value in own),
            *(None if one is None else one.outcome for one in found),
        ]
