"""Judgements of a run as KnowOrNot's evaluated documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ...adapters.knowornot import (
    CONTEXT_PARTS,
    EvaluatedDocument,
    EvaluatedReply,
    EvaluationSpec,
    ExperimentMetadata,
    NamedPrompt,
    SavedReply,
    Verdict,
)
from ..replies import ABSTENTION, FACTUALITY, GIVEN_JUDGE, TIERS, Judgement, RepliesRun
from ._knowornot_metadata import OTHER_CLIENT, KeptExperiment, client_or_other, time_or
from ._knowornot_names import REASONING, evaluator_of, text_as_tags

_OUTCOMES = {ABSTENTION: ("yes", "no"), FACTUALITY: TIERS}


def evaluated_documents(
    run: RepliesRun,
    metadata: ExperimentMetadata,
    saved: Mapping[str, SavedReply],
    kept: KeptExperiment,
    made: datetime,
) -> dict[str, EvaluatedDocument]:
    """One document per judge, by what tells its file apart: nothing for the judge `given`.

    Judges are not mixed: KnowOrNot knows an evaluation by its criterion alone.
    Judgements that failed are left out.

    Args:
        run: whose judgements.
        metadata: of the experiment.
        saved: its replies by their ids in the run.
        kept: what an import kept.
        made: when the run was made, for judgements that have no time.
    """
    by_judge: dict[str, dict[str, list[Judgement]]] = {}
    for judgement in run.judgements.values():
        if judgement.reply_id in saved and judgement.outcome is not None:
            rows = by_judge.setdefault(judgement.judge, {})
            rows.setdefault(judgement.reply_id, []).append(judgement)
    names = sorted(by_judge, key=lambda name: (name != GIVEN_JUDGE, name))
    return {
        "" if name == GIVEN_JUDGE else f"_{name}": _document(
            name, by_judge[name], metadata, saved, kept, made
        )
        for name in names
    }


def _document(
    judge: str,
    judgements: Mapping[str, Sequence[Judgement]],
    metadata: ExperimentMetadata,
    saved: Mapping[str, SavedReply],
    kept: KeptExperiment,
    made: datetime,
) -> EvaluatedDocument:
    mine = {one.spec.evaluation_name: one for one in kept.specs if one.judge == judge}
    times = {name: time_or(one.first_timestamp, made.isoformat()) for name, one in mine.items()}
    grouped: dict[str, list[Judgement]] = {}
    for rows in judgements.values():
        for row in rows:
            grouped.setdefault(row.criterion, []).append(row)
    specs = {
        criterion: _strict(mine[criterion].spec)
        if criterion in mine
        else _spec(judge, criterion, rows)
        for criterion, rows in grouped.items()
    }
    responses = tuple(
        EvaluatedReply(
            llm_response=reply,
            evaluations=tuple(
                _verdict(
                    row, reply, specs[row.criterion], times.get(row.criterion, made.isoformat())
                )
                for row in judgements.get(reply_id, ())
            ),
        )
        for reply_id, reply in saved.items()
    )
    return EvaluatedDocument(
        path_to_store=next((one.path_to_store for one in mine.values()), ""),
        experiment_metadata=metadata,
        evaluation_metadata=tuple(specs.values()),
        responses=responses,
    )


def _strict(spec: EvaluationSpec) -> EvaluationSpec:
    return spec.model_copy(
        update={
            "evaluator_client_enum": client_or_other(spec.evaluator_client_enum),
            "in_context": tuple(part for part in spec.in_context if part in CONTEXT_PARTS),
        }
    )


def _spec(judge: str, criterion: str, rows: Sequence[Judgement]) -> EvaluationSpec:
    """How a judge of ours judged; its prompt is known by hash alone."""
    outcomes = _OUTCOMES.get(criterion) or sorted({row.outcome or "" for row in rows})
    sha256 = next((row.judge_sha256 for row in rows if row.judge_sha256), "")
    return EvaluationSpec(
        evaluation_name=criterion,
        evaluator_client_enum=OTHER_CLIENT,
        evaluator_model=evaluator_of(judge),
        evaluation_prompt=NamedPrompt(identifier=f"{judge} {sha256[:12]}".strip()),
        tag_name=criterion,
        evaluation_outcomes_list=tuple(outcomes),
        in_context=("question", "expected_answer"),
        additional_tags=(REASONING,) if any(row.reasoning for row in rows) else (),
    )


def _verdict(row: Judgement, reply: SavedReply, spec: EvaluationSpec, time: str) -> Verdict:
    return Verdict(
        evaluation_id=f"{row.criterion}_{time}_{reply.identifier}_{spec.evaluator_model}",
        evaluation_timestamp=time,
        evaluation_name=row.criterion,
        evaluation_outcome=row.outcome or "",
        additional_tags_info=text_as_tags(row.reasoning, spec.additional_tags),
    )
