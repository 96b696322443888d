"""Make one scorer of several that measured the same questions, where that is shown to be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from ...calibration import CalibrationRecord
from ...calibration.mixing import fit_mix
from ...guard.artefacts import Missing
from ...guard.errors import InputError
from ...guard.fingerprint import JOINT
from ...guard.signals.relevance.registry import scorer_name
from .records import CalibrationSet, MixChoice, tuned_together

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
    parts = [_by_case(one) for one in sets]
    learning, testing = CalibrationRecord.split(first.records, share=FITTED_ON)
    cases = [
        (tuple(said), record.is_answerable, record.unit)
        for record in replace(first, records=tuple(learning)).about(missing).records
        if (record.is_answerable or record.is_missing) and (said := _said(parts, record))
    ]
    try:
        fit = fit_mix(cases, seed=first.seed)
    except ValueError as error:
        raise InputError(
            f"of its questions a third is too few to fit a mix: it {error}",
            where=first.source,
            hint="measure more questions",
        ) from None
    names, sources = tuple(map(_named, sets)), tuple(one.source for one in sets)
    # The questions of the test, by the mix or by its best scorer alone.
    taken = sets[0] if fit.is_better else sets[fit.best]
    alone = {(r.question_id, r.measured_case): r.relevance for r in taken.records}
    records = []
    for record in testing:
        value = alone[record.question_id, record.measured_case]
        if fit.is_better:
            said = _said(parts, record)
            value = fit.rule.value(said) if said else None
        records.append(replace(record, relevance=value))
    scorer, aggregator = taken.scorer, taken.aggregator
    if fit.is_better:
        fingerprints = [one.scorer for one in sets if one.scorer is not None]
        scorer, aggregator = fit.rule.fingerprint(fingerprints), JOINT
    asked = {record.question_id for record in records}
    return replace(
        taken,
        records=tuple(records),
        source=first.source,
        scorer=scorer,
        aggregator=aggregator,
        tuned_on=tuned_together(sets),
        reviews={q: v for q, v in (first.reviews or {}).items() if q in asked},
        makers={q: v for q, v in first.makers.items() if q in asked},
        mix=MixChoice(names, sources, fit),
    )


def _named(one: CalibrationSet) -> str:
    try:
        return one.name if one.scorer is None else scorer_name(one.scorer)
    except InputError:
        return one.name


def _by_case(one: CalibrationSet) -> dict[_Key, tuple[float, float] | None]:
    """Value and margin of each case; None for one that failed."""
    found: dict[_Key, tuple[float, float] | None] = {}
    for record in one.records:
        key, value = (record.question_id, record.measured_case), record.relevance
        margin = one.margins.get(key)
        found[key] = None if value is None or margin is None else (value, margin)
    return found


def _said(
    parts: Sequence[dict[_Key, tuple[float, float] | None]], record: CalibrationRecord
) -> list[tuple[float, float]] | None:
    """What each scorer says of a case; None where one of them failed."""
    found = [one[record.question_id, record.measured_case] for one in parts]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None
