"""Fit a cascade to a leak: the width of its band by cost, its place with a guarantee.

a small part of the passages ─► width of the band that costs least ─┐ declared
the rest ───────────────────────────────────────────────────────────┴─► places of the band,
    strict to lax, each tested as a whole ─► band and threshold ─► Policy

For a given width, both edges of the band and the final threshold move together. As the band
moves down, what passed still passes. So the test of a leak holds for the cascade as a whole:
each question is known by the highest place of the band at which it passes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...guard.artefacts import Guarantee, Histogram
from ...guard.fingerprint import CascadeRule
from ...guard.policy import FIRST_STAGE_SHARE, IdentityCalibrator
from .. import CalibrationRecord
from ..records import Records
from ..statistics import errors_allowed_each
from ._statement import say
from .certificate import PointResult
from .costs import threshold_for_share
from .fit import (
    BandWidth,
    Cascade,
    CascadeBand,
    Fit,
    FitSettings,
    strict_value,
    with_relevance,
)
from .leak import (
    certify_leak,
    fit_leak,
    fit_population,
    populations_of,
    raw_relevance,
    thresholds_between,
)
from .risks import LEARN_PATH, Leak, learning_share

# Widths of the band, as shares of the range of the cheap scores.
_WIDTHS = (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# Of the leak that can be certified: the mean cost over these is steadier than that of one.
_LEAKS = (0.5, 1.0, 1.5)


def fit_cascade(records: Records, risk: Leak, settings: FitSettings) -> Fit:
    """Fit the band of a cascade, so that at most `risk.bound` of unanswerable questions pass.

    The width is chosen by cost on a part of the passages, which takes no part in the test.
    Where no width costs less than the cheap scorer alone, the policy is one of that scorer; with a
    strict reading it is always one of a cascade, whose band may have no width.
    """
    cascade = settings.binding.cascade
    assert cascade is not None
    passages = len({record.unit for record in records})
    share = learning_share(LEARN_PATH, passages)
    learning, testing = CalibrationRecord.split(records, share=share)
    main = settings.level
    if cascade.on_failure == "cheap":
        main *= 1.0 - FIRST_STAGE_SHARE
    widths = _widths(learning, testing, cascade, risk, main)
    reach, *_ = min(widths, key=lambda width: width[-1])
    learned_on = len({record.question_id for record in learning})
    if not reach and cascade.strict is None:
        band = CascadeBand(None, 0.0, learned_on, widths)
        return replace(fit_leak(testing, risk, settings), cascade=band)
    strictest = _with_strictest(testing, reach, cascade)
    threshold, _ = _certified(strictest, risk, main)
    fallback, first = None, None
    if cascade.on_failure == "cheap":
        fallback, first = _certified(testing, risk, settings.level * FIRST_STAGE_SHARE)
    rule, asked, doubts = None, 0.0, cascade.strict is not None
    thresholds, binding = np.zeros(0), settings.binding
    # Without a threshold the test is spent: the cheap scorer alone is not tested after it.
    if threshold is not None:
        rule = CascadeRule(threshold=threshold, reach=reach, fallback=fallback)
        asked = _asked(testing, threshold, reach)
        thresholds = np.asarray([threshold])
        strict = () if cascade.strict is None else (cascade.strict,)
        scorer = rule.fingerprint(binding.scorer, cascade.costly, *strict)
        binding = replace(binding, scorer=scorer, aggregator="joint")
    band = CascadeBand(rule, reach, learned_on, widths, asked, doubts)
    bound_to_both = replace(settings, binding=binding)
    shown = band.applied(testing)
    fit, _ = fit_population(shown, risk, bound_to_both, level=main, thresholds=thresholds)
    policy = fit.policy
    if rule is not None and policy.guarantee is not None and policy.guarantee.certified:
        more = {
            "guarantee": _of_cascade(policy.guarantee, rule, first, testing, doubts),
            "histograms": {**policy.histograms, **_asked_histograms(testing, rule)},
        }
        policy = policy.model_copy(update=more)
    # Whoever judges questions by thresholds from others moves the whole band.
    return replace(fit, policy=policy, cascade=band, records=strictest)


# -- the width, by cost ---------------------------------------------------------------


def _widths(
    learning: Records,
    testing: Records,
    cascade: Cascade,
    risk: Leak,
    level: float,
) -> tuple[BandWidth, ...]:
    """What each width of the band would cost; 0 is the cheap scorer alone, or its doubts alone."""
    scores = [record.relevance for record in learning if record.relevance is not None]
    passages = len({r.unit for r in testing if r.is_missing and r.relevance is not None})
    # So many passages may fail in the test.
    allowed = int(errors_allowed_each(np.asarray([passages]), risk.bound, level)[0])
    if not scores or allowed < 0:
        return ((0.0, 0.0, 1.0, 1.0 + cascade.abstention_cost / 2),)
    # The whole range and a little more, so that the widest band holds every score above it.
    width = (max(scores) - min(scores)) * 1.01
    widths = dict.fromkeys(share * width for share in _WIDTHS)
    return tuple(_width(learning, reach, allowed / passages, cascade) for reach in widths)


def _width(learning: Records, reach: float, leak: float, cascade: Cascade) -> BandWidth:
    """What a band of this width would do, where as many can be answered as cannot."""
    strictest = _with_strictest(learning, reach, cascade)
    answerable = [r.relevance for r in strictest if r.is_answerable and r.relevance is not None]
    asked, abstained = [], []
    for share in _LEAKS:
        threshold = threshold_for_share(strictest, share * leak)
        failing = 1.0
        if threshold is not None and answerable:
            failing = sum(value < threshold for value in answerable) / len(answerable)
        asked.append(0.0 if threshold is None else _asked(learning, threshold, reach))
        abstained.append(failing)
    share_asked, false_abstention = float(np.mean(asked)), float(np.mean(abstained))
    cost = 1.0 + cascade.judge_cost * share_asked + cascade.abstention_cost * false_abstention / 2
    return reach, share_asked, false_abstention, cost


def _asked(records: Records, threshold: float, reach: float) -> float:
    """Share in the band; cases with and without their answer count the same."""
    rule = CascadeRule(threshold=threshold, reach=reach)
    shares = [
        sum(asked) / len(asked)
        for answerable in (True, False)
        if (asked := _which_ask([r for r in records if (r.case == "in_kb") is answerable], rule))
    ]
    return float(np.mean(shares)) if shares else 0.0


def _which_ask(records: Records, rule: CascadeRule) -> list[bool]:
    """Whether the costly scorer is asked, of each record that was measured."""
    return [
        rule.asks(record.relevance, strict_value(record))
        for record in records
        if record.relevance is not None
    ]


# -- the place, with a guarantee ------------------------------------------------------


def _with_strictest(
    records: Records,
    reach: float,
    cascade: Cascade,
) -> tuple[CalibrationRecord, ...]:
    """The records, with the highest lower edge of the band at which each passes as relevance.

    Args:
        records: with raw relevance and verdicts.
        reach: width of the band.
        cascade: says what a question without a verdict counts as.
    """
    worst = 0.0 if cascade.on_failure == "abstain" else 1.0

    def edge(record: CalibrationRecord, cheap: float) -> float:
        verdict = worst if record.verdict is None else record.verdict
        return CascadeRule.strictest(cheap, verdict, reach, strict_value(record))

    return with_relevance(records, edge)


def _certified(
    records: Records,
    risk: Leak,
    level: float,
) -> tuple[float | None, PointResult | None]:
    """The threshold that a test of the records' relevance chooses, and its evidence."""
    in_kb, left_out = raw_relevance(records)
    thresholds = thresholds_between(left_out.scores, in_kb)
    certificate, raw = certify_leak(left_out, thresholds, IdentityCalibrator(), risk.target, level)
    return raw, certificate.best


def _of_cascade(
    guarantee: Guarantee,
    rule: CascadeRule,
    first: PointResult | None,
    records: Records,
    doubts: bool,
) -> Guarantee:
    """The guarantee, with what it says of two stages."""
    suffix, more = "_doubts" if doubts else "", dict[str, object]()
    failing = say("leak.cascade_abstains")
    if first is not None and rule.fallback is not None:
        failing = say(
            f"leak.cascade_cheap{suffix}",
            fallback=rule.fallback,
            wrong=first.wrong,
            n=guarantee.n,
        )
        evidence = first.main.model_copy(update={"kind": "first_stage"})
        more["risks"] = (*guarantee.risks, evidence)
        if guarantee.passages or guarantee.unanswerable_topics:
            more["first_stage_passages"] = raw_relevance(records)[1].counts(rule.fallback)
    more["statement"] = say(
        f"leak.cascade{suffix}",
        statement=guarantee.statement,
        low=rule.threshold,
        high=rule.threshold + rule.reach,
        failing=failing,
    )
    return guarantee.model_copy(update=more)


def _asked_histograms(records: Records, rule: CascadeRule) -> dict[str, Histogram]:
    """How many questions the costly scorer is asked about, as drift compares it."""
    found = {}
    for case in ("in_kb", populations_of(records)[0]):
        asked = _which_ask([record for record in records if record.case == case], rule)
        counts = (asked.count(False), asked.count(True))
        found[f"asked.{case}"] = Histogram(edges=(0.0, 0.5, 1.0), counts=counts)
    return found
