"""What a registry of metrics has counted."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry


def counted(registry: CollectorRegistry, name: str, by: str, **labels: str) -> dict[str, float]:
    """The samples of this name that have these labels, summed by another label."""
    found: Counter[str] = Counter()
    for family in registry.collect():
        for one in family.samples:
            if one.name == name and labels.items() <= one.labels.items():
                found[one.labels[by]] += one.value  # type: ignore[assignment]
    return dict(found)


def total(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """The sum of the samples of this name that have these labels."""
    return sum(counted(registry, name, "guard", **labels).values())
