"""Make one scorer of several that measured the same questions, where that is shown to be better."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from ...calibration import CalibrationRecord
from ...calibration.mixing import fit_mix
from ...guard.artefacts import Missing
from ...guard.errors import InputError
from ...guard.fingerprint import JOINT
from ...guard.signals.relevance.registry import scorer_name
from .records import CalibrationSet, tuned_together

# Of the groups: to fit the mix on. The others take part in the test alone.
FITTED_ON = 1 / 3
_MOST = 5
_Key = tuple[str, str]


def mixed(sets: Sequence[CalibrationSet], missing: Missing | None) -> CalibrationSet:
    """Fit a mix on a part of the questions; return the others, as the mix judges them.

    Where the mix is not shown to be better than its best scorer alone, the others are returned as
    that one judges them.

    Args:
        sets: two to five runs on the same questions and passages, each with another scorer.
        missing: which questions must not pass, as for `CalibrationSet.about`.

    Raises:
        InputError: the runs cannot be mixed, or hold too few questions.
    """
    first = sets[0]
    if not 2 <= len(sets) <= _MOST:
        hint = "name the run of each scorer with --run"
        raise InputError(f"mixes two to {_MOST} runs, not {len(sets)}", where="--mix", hint=hint)
    for one in sets:
        if one.scorer is None or not one.leaves_out or not one.margins:
            needed = "holds no scores of single passages, which a mix needs"
            hint = "name a run of `knowgate measure`, made by this version"
            raise InputError(needed, where=one.source, hint=hint)
        one.require_usual_aggregator()
    for earlier, later in combinations(sets, 2):
        earlier.require_same_cases(later)
    said = _said(sets)
    learning, testing = CalibrationRecord.split(first.records, share=FITTED_ON)
    cases = [
        (tuple(said[_key(record)]), record.is_answerable, record.unit)
        for record in replace(first, records=tuple(learning)).about(missing).records
        if (record.is_answerable or record.is_missing) and _key(record) in said
    ]
    try:
        fit = fit_mix(cases, seed=first.seed)
    except ValueError as error:
        raise InputError(
            f"of its questions a third is too few to fit a mix: it {error}",
            where=first.source,
            hint="measure more questions",
        ) from None
    # The questions of the test, by the mix or by its best scorer alone.
    taken = sets[0] if fit.is_better else sets[fit.best]
    values = {_key(record): record.relevance for record in taken.records}
    if fit.is_better:
        values = {key: fit.rule.value(one) for key, one in said.items()}
        fingerprints = [one.scorer for one in sets if one.scorer is not None]
        taken = replace(taken, scorer=fit.rule.fingerprint(fingerprints), aggregator=JOINT)
    records = tuple(replace(record, relevance=values.get(_key(record))) for record in testing)
    asked = {record.question_id for record in records}
    return replace(
        taken,
        records=records,
        source=first.source,
        others=tuple(one.source for one in sets[1:]),
        tuned_on=tuned_together(sets),
        reviews={q: v for q, v in (first.reviews or {}).items() if q in asked},
        mix=replace(fit, names=tuple(map(_named, sets))),
    )


def _named(one: CalibrationSet) -> str:
    try:
        return one.name if one.scorer is None else scorer_name(one.scorer)
    except InputError:
        return one.name


def _key(record: CalibrationRecord) -> _Key:
    return record.question_id, record.measured_case


def _said(sets: Sequence[CalibrationSet]) -> dict[_Key, list[tuple[float, float]]]:
    """Value and margin by each scorer, of the cases that none of them failed on."""
    found: dict[_Key, list[tuple[float, float]]] = defaultdict(list)
    for one in sets:
        for record in one.records:
            value, margin = record.relevance, one.margins.get(_key(record))
            if value is not None and margin is not None:
                found[_key(record)].append((value, margin))
    return {key: said for key, said in found.items() if len(said) == len(sets)}
