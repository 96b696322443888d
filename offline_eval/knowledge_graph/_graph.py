"""A knowledge graph in memory: whole numbers in sorted arrays, texts only for names.

Built once, by `GraphBuilder`; every look-up is a binary search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._terms import Kind

Ids = NDArray[np.int32]
NO_YEAR = 0
"""A bound that is not stated, in arrays of years."""


class Span(NamedTuple):
    """A fact's value and the years in which it holds; None where the graph has no bound."""

    value: int
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one property.

    Attributes:
        subjects, objects: sorted by subject, then object; no pair twice.
        held_objects, held_subjects: the same facts, sorted by object, then subject.
        span_subjects, span_values, span_starts, span_ends: dated facts, sorted alike;
            `NO_YEAR` where a bound is missing.
        doubtful: subjects, sorted, of which not every value is known: one is a blank node,
            a deprecated statement or of another kind than the property's other values.
        kind: of most objects.
        complete: whether the graph has all of the property's facts about its subjects'
            objects, too; False where only a part was fetched.
    """

    subjects: Ids
    objects: Ids
    held_objects: Ids
    held_subjects: Ids
    span_subjects: Ids
    span_values: Ids
    span_starts: Ids
    span_ends: Ids
    doubtful: Ids
    kind: Kind
    complete: bool = True

    def values(self, subject: int) -> Ids:
        """The objects of a subject, ascending."""
        low, high = self.subjects.searchsorted(_between(subject))
        return self.objects[low:high]

    def holders(self, value: int) -> Ids:
        """The subjects with an object, ascending."""
        low, high = self.held_objects.searchsorted(_between(value))
        return self.held_subjects[low:high]

    def spans(self, subject: int) -> tuple[Span, ...]:
        """The dated facts of a subject, by start."""
        low, high = self.span_subjects.searchsorted(_between(subject))
        found = [
            Span(int(value), int(start) or None, int(end) or None)
            for value, start, end in zip(
                self.span_values[low:high],
                self.span_starts[low:high],
                self.span_ends[low:high],
                strict=True,
            )
        ]
        return tuple(
            sorted(set(found), key=lambda span: (span.start or 0, span.end or 0, span.value))
        )

    def is_doubtful(self, subject: int) -> bool:
        """Whether a value of this subject is unknown or disputed."""
        at = int(np.searchsorted(self.doubtful, subject))
        return at < len(self.doubtful) and int(self.doubtful[at]) == subject


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """Entities, values, their names and all facts, by property.

    Attributes:
        nodes: IRI of every entity, written form of every value; sorted.
        kinds: of every node, by `Kind`.
        facts: property (a node) → its facts.
        labels: language → node → name.
        aliases: node → further names, sorted.
        identifiers: properties that the graph itself declares as identifiers, addresses or
            media.
        triples: how many were read.
        source: name of the file or address.
        digest: sha256 of the file; of what was fetched, for an endpoint.
    """

    nodes: Sequence[str]
    kinds: NDArray[np.uint8]
    facts: Mapping[int, Facts]
    labels: Mapping[str, Mapping[int, str]]
    aliases: Mapping[int, tuple[str, ...]]
    identifiers: frozenset[int]
    triples: int
    source: str
    digest: str
    class_starts: NDArray[np.int64]
    class_members: Ids
    link_starts: NDArray[np.int64]
    link_members: Ids

    def kind(self, node: int) -> Kind:
        """What a node is."""
        return Kind(int(self.kinds[node]))

    def classes(self, node: int) -> frozenset[int]:
        """The classes that the graph says a node is of; often one, or none."""
        return frozenset(
            self.class_members[self.class_starts[node] : self.class_starts[node + 1]].tolist()
        )

    def linked(self, node: int) -> frozenset[int]:
        """Every node that stands in a fact with this one, by any property, either way round."""
        return frozenset(
            self.link_members[self.link_starts[node] : self.link_starts[node + 1]].tolist()
        )

    def are_linked(self, one: int, other: int) -> bool:
        """Whether two nodes stand in a fact together."""
        low, high = self.link_starts[one], self.link_starts[one + 1]
        at = low + self.link_members[low:high].searchsorted(np.int32(other))
        return bool(at < high and self.link_members[at] == other)


def _between(node: int) -> Ids:
    # Of the arrays' own type, or all of the array searched would be converted.
    return np.array((node, node + 1), dtype=np.int32)
