"""Fit a logistic probe on a language model's hidden states."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..guard.errors import InputError, optional_import
from ..guard.prompts import Prompt
from ..guard.signals.confidence.hidden_state import FittedProbe
from .selective_metrics import SelectiveCurve
from .statistics import Floats, Interval, binomial_p_value, numbered

_MOST_LAYERS = 8
_BATCH = 64
# Points of the grid of a band's ends, at quantiles of the scores.
_STEPS = 50

_Choice = tuple[int, float]


@dataclass(frozen=True, slots=True)
class ProbeFit:
    """A fitted probe and how well it does.

    Attributes:
        probe: fitted on all questions.
        auroc: of "the label is true" on questions that took part neither in fitting nor
            in choosing layer and penalty, with a bootstrap interval over groups.
        by_choice: cross-validated AUROC of each (layer, penalty) on all questions; its
            best value is what the choice rests on, and a little too good.
    """

    probe: FittedProbe
    auroc: Interval
    by_choice: Mapping[_Choice, float]


@dataclass(frozen=True, slots=True)
class ProbeSearch:
    """What `fit_hidden_state_probe` chooses from, and how.

    Attributes:
        layers: to choose from; up to eight, evenly spread over the model, when None.
        penalties: values of C (large ones trust the data) to choose from.
        folds: of both cross-validations, at least 2.
    """

    layers: Sequence[int] | None = None
    penalties: Sequence[float] = (0.0001, 0.001, 0.01, 0.1, 1.0)
    folds: int = 5


def fit_hidden_state_probe(
    language_model: Any,
    questions: Sequence[str],
    labels: Sequence[bool],
    groups: Sequence[Hashable] | None = None,
    *,
    search: ProbeSearch | None = None,
    prompt: Prompt | None = None,
    seed: int = 0,
    created_by: str = "",
) -> ProbeFit:
    """Fit a logistic regression of the label on the state of each prompt's last token.

    Layer and penalty are chosen by cross-validation within groups; the reported AUROC comes
    from a further one around it.

    Args:
        language_model: whose states are read: a local one, such as `HuggingFaceLM`.
        questions: at least two per label and fold, as they will be asked.
        labels: whether the model's own closed-book answer is right, one per question.
        groups: questions of one group are never on both sides of a fold; None: each alone.
        search: layers and penalties to choose from, and the number of folds.
        prompt: closed-book prompt with a `{question}` slot, as the estimator gets it.
        seed: of the folds.
        created_by: what the probe says wrote it.

    Raises:
        InputError: lists of different length, one kind of label only, fewer groups of a
            kind than folds, or a layer that the model does not have.
    """
    prompt = prompt or Prompt.bundled("closed_book")
    search = search or ProbeSearch()
    folds = search.folds
    known = np.asarray(labels, dtype=bool)
    owners = numbered(range(len(questions)) if groups is None else groups)
    _check(questions, known, owners, folds)
    prompts = [prompt.fill(question=question) for question in questions]
    given = search.layers
    layers = _spread_layers(language_model, prompts[0]) if given is None else sorted(set(given))
    if not layers or not search.penalties:
        raise InputError("hold nothing to choose from", where="layers and penalties")
    stacked = np.stack([_states(language_model, prompts, layer) for layer in layers], axis=1)
    chosen = _search(layers, search, seed).fit(stacked, known, groups=owners)
    if np.isnan(chosen.best_score_):
        raise InputError("no fold holds both kinds of labels", where="groups")
    # Each question's logit by a probe that was neither chosen nor fitted on its fold.
    held_out = np.full(len(known), np.nan)
    for inside, outside in _folds(folds, seed).split(stacked, known, owners):
        other = _search(layers, search, seed + 1)
        other.fit(stacked[inside], known[inside], groups=owners[inside])
        held_out[outside] = other.decision_function(stacked[outside])
    by_group = [
        (held_out[mine & known].tolist(), held_out[mine & ~known].tolist())
        for mine in (owners == owner for owner in dict.fromkeys(owners.tolist()))
    ]
    found = SelectiveCurve.bootstrap_auroc(by_group, seed=seed)
    scaler, logistic = chosen.best_estimator_["scale"], chosen.best_estimator_["fit"]
    results = chosen.cv_results_
    choices = [(layers[one["layer__kw_args"]["at"]], one["fit__C"]) for one in results["params"]]
    layer, penalty = choices[chosen.best_index_]
    probe = FittedProbe(
        created_by=created_by,
        language_model=language_model.fingerprint,
        prompt_sha256=prompt.sha256,
        layer=layer,
        mean=tuple(scaler.mean_.tolist()),
        scale=tuple(scaler.scale_.tolist()),
        weights=tuple(logistic.coef_[0].tolist()),
        bias=float(logistic.intercept_[0]),
        penalty=penalty,
        questions=len(questions),
        auroc=found.value,
    )
    scores = results["mean_test_score"].tolist()
    return ProbeFit(probe, found, dict(zip(choices, scores, strict=True)))


def _search(layers: Sequence[int], search: ProbeSearch, seed: int) -> Any:
    """Choose layer and penalty by the mean AUROC over the folds.

    Of equal choices the strongest penalty comes first, then the earliest layer.
    """
    optional_import("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    steps = [
        ("layer", FunctionTransformer(_layer_at)),
        ("scale", StandardScaler()),
        ("fit", LogisticRegression(max_iter=1000)),
    ]
    grid = [
        {"fit__C": [penalty], "layer__kw_args": [{"at": place}]}
        for penalty in sorted(set(search.penalties))
        for place in range(len(layers))
    ]
    folds = _folds(search.folds, seed)
    return GridSearchCV(Pipeline(steps), grid, scoring="roc_auc", cv=folds)


def _layer_at(states: Floats, at: int) -> Floats:
    return states[:, at]


def _folds(folds: int, seed: int) -> Any:
    optional_import("sklearn")
    from sklearn.model_selection import StratifiedGroupKFold

    return StratifiedGroupKFold(folds, shuffle=True, random_state=seed)


def _check(questions: Sequence[str], known: NDArray[Any], owners: NDArray[Any], folds: int) -> None:
    if not len(questions) == len(known) == len(owners) or folds < 2:
        raise InputError("must be as many as questions, and folds at least 2", where="labels")
    for label in (True, False):
        count = len(set(owners[known == label].tolist()))
        # A fold within a fold still needs both kinds.
        if count < 2 * folds:
            raise InputError(
                f"{count} groups of questions are labelled {label}, fewer than {2 * folds}",
                where="labels",
                hint="give more questions, or ask for fewer folds",
            )


def _spread_layers(language_model: Any, prompt: str) -> list[int]:
    """Up to eight layers from the first to the last, the embeddings left out."""
    depth = 0
    while True:
        try:
            language_model.hidden_states([prompt], depth + 1)
        except InputError:
            break
        depth += 1
    if not depth:
        raise InputError("the model has no layers", where="language_model")
    return sorted({round(at) for at in np.linspace(1, depth, min(depth, _MOST_LAYERS))})


def _states(language_model: Any, prompts: Sequence[str], layer: int) -> Floats:
    rows = [
        np.asarray(language_model.hidden_states(prompts[at : at + _BATCH], layer), np.float64)
        for at in range(0, len(prompts), _BATCH)
    ]
    return np.concatenate(rows)


@dataclass(frozen=True, slots=True)
class CascadeBands:
    """Bands of a `Cascade`, with the evidence for them.

    Attributes:
        accept: cheap value from which on a question is settled as known; None: no value
            is safe enough.
        reject: cheap value up to which it is settled as not known; None likewise.
        accepted: questions in the upper band.
        accepted_wrongly: those among them whose label is False.
        rejected: questions in the lower band.
        rejected_wrongly: those among them whose label is True.
        n: questions altogether.
    """

    accept: float | None
    reject: float | None
    accepted: int
    accepted_wrongly: int
    rejected: int
    rejected_wrongly: int
    n: int

    @property
    def between(self) -> float:
        """Share of questions that are left to the costly estimator."""
        return 1.0 - (self.accepted + self.rejected) / self.n


def fit_cascade_bands(
    cheap_scores: Sequence[float],
    labels: Sequence[bool],
    *,
    accept_risk: float = 0.05,
    reject_risk: float = 0.05,
    delta: float = 0.1,
) -> CascadeBands:
    """The widest bands of a cheap value whose error rates are certified.

    Each band is widened, from the outer end of the scale inwards along a grid that does
    not look at the labels, as long as the exact binomial test rejects "more than `risk`
    of the questions in this band are settled wrongly". Each end holds with probability
    1 − `delta` on questions like these; both do with 1 − 2 `delta`.

    Args:
        cheap_scores: the cheap estimator's values in [0, 1], one per question.
        labels: whether the costly estimator decides "known" on the question; or whether
            the answer is right, for bands that answer for themselves.
        accept_risk: share of wrongly accepted among accepted questions, in (0, 1).
        reject_risk: share of wrongly rejected among rejected questions, in (0, 1).
        delta: probability in (0, 1) that a band breaks its bound by bad luck.

    Returns:
        The bands; they never overlap: where both could hold a value, they meet halfway.

    Raises:
        ValueError: lists of different length or empty, scores outside [0, 1] or NaN, or
            an argument out of range.

    Source: fixed-sequence testing, Angelopoulos et al. 2021 (Learn then Test).

    Example:
        >>> scores = [0.1] * 60 + [0.5] * 60 + [0.9] * 60
        >>> bands = fit_cascade_bands(scores, [False] * 90 + [True] * 90)
        >>> bands.accept, bands.reject, round(bands.between, 2)
        (0.9, 0.1, 0.33)
    """
    if len(cheap_scores) != len(labels) or not len(labels):
        raise ValueError("there must be one label per score, and at least one")
    if not all(0.0 <= score <= 1.0 for score in cheap_scores):
        raise ValueError("scores must be between 0 and 1")
    scores, known = [float(score) for score in cheap_scores], [bool(label) for label in labels]
    # The scale turned over, the accepting band is a rejecting one.
    turned = _certified([-s for s in scores], [not k for k in known], accept_risk, delta)
    # A band that holds everything ends at the lowest value that can be its end, above 0.
    lowest = min((score for score in scores if score > 0.0), default=None)
    accepting = [] if lowest is None else [max(-end, lowest) for end in turned]
    rejecting = [end for end in _certified(scores, known, reject_risk, delta) if end < 1.0]
    accept, reject = _apart(accepting, rejecting)
    taken = [k for s, k in zip(scores, known, strict=True) if accept is not None and s >= accept]
    left = [k for s, k in zip(scores, known, strict=True) if reject is not None and s <= reject]
    return CascadeBands(
        accept, reject, len(taken), taken.count(False), len(left), left.count(True), len(known)
    )


def _apart(accepting: list[float], rejecting: list[float]) -> tuple[float | None, float | None]:
    """The widest certified ends; where the bands would overlap they meet halfway."""
    if not accepting or not rejecting:
        return min(accepting, default=None), max(rejecting, default=None)
    halfway = (min(accepting) + max(rejecting)) / 2
    # The tighter ends were all certified on the way to the widest one.
    accept = min((end for end in accepting if end >= halfway), default=max(accepting))
    return accept, max((end for end in rejecting if end < accept), default=None)


def _certified(scores: list[float], wrong: list[bool], risk: float, delta: float) -> list[float]:
    """Ends of a band of low scores that pass, each with all lower ends that can be tested."""
    ranked = sorted(zip(scores, wrong, strict=True))
    found: list[float] = []
    places = sorted({math.ceil(len(ranked) * step / _STEPS) - 1 for step in range(1, _STEPS + 1)})
    for end in dict.fromkeys(ranked[place][0] for place in places):
        inside = [mistaken for score, mistaken in ranked if score <= end]
        if binomial_p_value(sum(inside), len(inside), risk) <= delta:
            found.append(end)
        elif found or binomial_p_value(0, len(inside), risk) <= delta:
            # Ends too narrow to pass even without an error are no tests, and skipped.
            break
    return found
