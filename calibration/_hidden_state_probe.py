"""Fit a logistic probe on a language model's hidden states."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..guard.errors import InputError
from ..guard.prompts import Prompt
from ..guard.signals.confidence import FittedProbe
from ._selective_metrics import SelectiveCurve
from ._statistics import Interval

_MOST_LAYERS = 8
_BATCH = 64

_Matrix = NDArray[np.float64]
_Choice = tuple[int, float]


class ProbedLanguageModel(Protocol):
    """What fitting needs: a local model's hidden states and its fingerprint."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and settings."""
        ...

    def hidden_states(self, prompts: Sequence[str], layer: int) -> NDArray[np.float32]:
        """The last token's state after `layer`, of shape (len(prompts), width)."""
        ...


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
    language_model: ProbedLanguageModel,
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
        language_model: whose states are read.
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
    owners = _numbered(range(len(questions)) if groups is None else groups)
    _check(questions, known, owners, folds)
    prompts = [prompt.fill(question=question) for question in questions]
    states = _states_by_layer(language_model, prompts, search.layers)
    choices = list(itertools.product(states, dict.fromkeys(search.penalties)))
    if not choices:
        raise InputError("hold nothing to choose from", where="layers and penalties")
    by_choice = _cross_validated(states, known, owners, choices, folds, seed)
    layer, penalty = _best(by_choice)
    held_out = _held_out_logits(states, known, owners, choices, folds, seed)
    found = SelectiveCurve.bootstrap_auroc(_by_group(held_out, known, owners), seed=seed)
    mean, scale, weights, bias = _fitted(states[layer], known, penalty)
    probe = FittedProbe(
        created_by=created_by,
        language_model=language_model.fingerprint,
        prompt_sha256=prompt.sha256,
        layer=layer,
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(weights.tolist()),
        bias=bias,
        penalty=penalty,
        questions=len(questions),
        auroc=found.value,
    )
    return ProbeFit(probe, found, by_choice)


def _held_out_logits(
    states: Mapping[int, _Matrix],
    known: NDArray[Any],
    owners: NDArray[Any],
    choices: Sequence[_Choice],
    folds: int,
    seed: int,
) -> _Matrix:
    """Each question's logit by a probe that was neither chosen nor fitted on its fold."""
    held_out = np.full(len(known), np.nan)
    for inside, outside in _folds(known, owners, folds, seed):
        part = {number: matrix[inside] for number, matrix in states.items()}
        inner = _cross_validated(part, known[inside], owners[inside], choices, folds, seed + 1)
        layer, penalty = _best(inner)
        fitted = _fitted(part[layer], known[inside], penalty)
        held_out[outside] = _logits(fitted, states[layer][outside])
    return held_out


def _check(questions: Sequence[str], known: NDArray[Any], owners: NDArray[Any], folds: int) -> None:
    if not len(questions) == len(known) == len(owners):
        raise InputError("must be as many as questions", where="labels and groups")
    if folds < 2:
        raise InputError("must be at least 2", where="folds")
    for label in (True, False):
        count = len(set(owners[known == label].tolist()))
        # A fold within a fold still needs both kinds.
        if count < 2 * folds:
            raise InputError(
                f"{count} groups of questions are labelled {label}, fewer than {2 * folds}",
                where="labels",
                hint="give more questions, or ask for fewer folds",
            )


def _numbered(groups: Sequence[Hashable]) -> NDArray[np.intp]:
    numbers: dict[Hashable, int] = {}
    return np.asarray([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.intp)


def _spread_layers(language_model: ProbedLanguageModel, prompt: str) -> list[int]:
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


def _states_by_layer(
    language_model: ProbedLanguageModel, prompts: Sequence[str], layers: Sequence[int] | None
) -> dict[int, _Matrix]:
    if layers is None:
        layers = _spread_layers(language_model, prompts[0])
    return {layer: _states(language_model, prompts, layer) for layer in dict.fromkeys(layers)}


def _states(language_model: ProbedLanguageModel, prompts: Sequence[str], layer: int) -> _Matrix:
    rows = [
        np.asarray(language_model.hidden_states(prompts[at : at + _BATCH], layer), np.float64)
        for at in range(0, len(prompts), _BATCH)
    ]
    return np.concatenate(rows)


def _folds(
    known: NDArray[Any], owners: NDArray[Any], folds: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    from sklearn.model_selection import StratifiedGroupKFold

    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(known)), known, owners))


def _cross_validated(
    states: Mapping[int, _Matrix],
    known: NDArray[Any],
    owners: NDArray[Any],
    choices: Sequence[_Choice],
    folds: int,
    seed: int,
) -> dict[_Choice, float]:
    """Mean AUROC over the folds of every choice."""
    splits = _folds(known, owners, folds, seed)
    found: dict[_Choice, float] = {}
    for layer, penalty in choices:
        values = []
        for inside, outside in splits:
            fitted = _fitted(states[layer][inside], known[inside], penalty)
            logits = _logits(fitted, states[layer][outside])
            sides = logits[known[outside]].tolist(), logits[~known[outside]].tolist()
            value = SelectiveCurve.auroc(*sides)
            if value is not None:  # a fold without both kinds says nothing
                values.append(value)
        if values:
            found[layer, penalty] = float(np.mean(values))
    return found


def _best(by_choice: Mapping[_Choice, float]) -> _Choice:
    """The best choice; of equal ones the strongest penalty, then the earliest layer."""
    if not by_choice:
        raise InputError("no fold holds both kinds of labels", where="groups")
    return max(by_choice, key=lambda choice: (by_choice[choice], -choice[1], -choice[0]))


def _fitted(
    states: _Matrix, known: NDArray[Any], penalty: float
) -> tuple[_Matrix, _Matrix, _Matrix, float]:
    """Mean, scale, weights and bias of a logistic regression on standardised states."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = states.mean(axis=0), states.std(axis=0)
    # A dimension that never changes says nothing, and must not be divided by 0.
    scale = np.where(scale > 1e-12, scale, 1.0)
    model: Any = LogisticRegression(C=penalty, max_iter=1000).fit((states - mean) / scale, known)
    return mean, scale, np.asarray(model.coef_[0], np.float64), float(model.intercept_[0])


def _logits(fitted: tuple[_Matrix, _Matrix, _Matrix, float], states: _Matrix) -> _Matrix:
    mean, scale, weights, bias = fitted
    logits: _Matrix = (states - mean) / scale @ weights + bias
    return logits


def _by_group(
    scores: _Matrix, known: NDArray[Any], owners: NDArray[Any]
) -> list[tuple[list[float], list[float]]]:
    """Per group the scores of its true and of its false questions."""
    return [
        (scores[mine & known].tolist(), scores[mine & ~known].tolist())
        for mine in (owners == owner for owner in dict.fromkeys(owners.tolist()))
    ]
