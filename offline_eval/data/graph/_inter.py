"""Make questions on intersections of two answer sets, and twins whose intersection is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np

from ._answer_sets import MOST_MISSES, AnswerSet, Material, View, seeded, shuffled
from ._drafts import Draft, Twins
from ._facts import value_facts
from ._graph import Ids
from ._items import QuestionType

_TRIES = 30
_ROUNDS = 3
_MOST_VIEWS = 200
Group = Callable[[], Iterator[Twins]]


def inter_groups(material: Material) -> list[Group]:
    """One stream of twins per pair of properties whose answers can meet."""
    found: list[Group] = []
    for inverse in (False, True):
        views = [view for view in material.entity_views() if view.inverse is inverse]
        # Those with most answers: pairs grow with the square.
        views.sort(key=lambda view: (-len(material.members(view)), view.prop))
        views = sorted(views[:_MOST_VIEWS], key=lambda view: view.prop)
        for one, other in _meeting(material, views):
            found.append(lambda one=one, other=other: _draw(material, one, other))  # type: ignore[misc]
    return found


def _meeting(material: Material, views: list[View]) -> Iterator[tuple[View, View]]:
    """Pairs of views with an answer in common."""
    from scipy.sparse import csr_matrix

    if not views:
        return
    members = [material.members(view) for view in views]
    rows = np.repeat(np.arange(len(views)), [len(found) for found in members])
    incidence = csr_matrix(
        (np.ones(len(rows), dtype=np.int32), (rows, np.concatenate(members))),
        shape=(len(views), len(material.graph.nodes)),
    )
    product: Any = incidence @ incidence.T
    common = product.tocoo()
    for row, column in sorted(zip(common.row.tolist(), common.col.tolist(), strict=True)):
        if row < column:
            yield views[row], views[column]


def _draw(material: Material, one: View, other: View) -> Iterator[Twins]:
    rng = seeded(material.settings.seed, "inter", _name(material, one), _name(material, other))
    shared = np.intersect1d(material.members(one), material.members(other), assume_unique=True)
    misses = 0
    # A common answer has, as a rule, several pairs of questions to it.
    for node in (node for _ in range(_ROUNDS) for node in shuffled(shared, rng)):
        misses += 1
        if misses > MOST_MISSES:
            return
        first = _holding(material, one, node, rng)
        second = _holding(material, other, node, rng)
        if first is None or second is None or first.key == second.key:
            continue
        common = tuple(sorted(set(first.answers) & set(second.answers)))
        rivals = (set(first.answers) | set(second.answers)) - set(common)
        if material.labels.same_name(common, rivals) or first.key in common:
            continue
        if second.key in common:
            continue
        empty = _disjoint(material, first, other, node, shared, rng)
        if empty is None or empty.key == second.key:
            continue
        facts = [value_facts(material, part, rng) for part in (first, empty)]
        if any(found is None for found in facts):
            continue
        misses = 0
        yield Twins(
            Draft(QuestionType.INTER, (first, second), common),
            Draft(QuestionType.INTER, (first, empty), ()),
            tuple(fact for found in facts if found is not None for fact in found),
        )


def _holding(material: Material, view: View, node: int, rng: Random) -> AnswerSet | None:
    """An answer set with `node` in it."""
    facts = material.facts(view)
    keys = facts.values(node) if view.inverse else facts.holders(node)
    return material.answer_set(view, int(keys[rng.randrange(len(keys))])) if len(keys) else None


def _disjoint(
    material: Material, first: AnswerSet, other: View, like: int, shared: Ids, rng: Random
) -> AnswerSet | None:
    """A set of the same kind that has nothing in common with the first, by any fact or name.

    Drawn as the set that it takes the place of, from `shared`, the answers that both views have:
    or keys with many answers would stand in answerable questions more often.
    """
    classes = material.graph.classes(like)
    for _ in range(_TRIES):
        node = int(shared[rng.randrange(len(shared))])
        found = None if node in first.answers else _holding(material, other, node, rng)
        if found is None or found.key == first.key or found.key in first.answers:
            continue
        key = found.key
        if first.key in found.answers:
            continue
        if classes and not any(classes & material.graph.classes(node) for node in found.answers):
            continue
        # A fact of another property may say the same, such as a subproperty or an inverse.
        linked = material.graph.are_linked
        if any(linked(first.key, node) for node in found.answers):
            continue
        if any(linked(key, node) for node in first.answers):
            continue
        if not material.labels.same_name(first.answers, found.answers):
            return found
    return None


def _name(material: Material, view: View) -> str:
    return f"{material.graph.nodes[view.prop]}{'^' if view.inverse else ''}"
