"""What a run asks, made of its settings and its instances alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .._parts import MODEL_SYSTEM
from ._items import CHOICE_TASKS, EvidenceKind, Task
from ._rows import CLOSED_BOOK, REMOVES, Instance, row_id


@dataclass(frozen=True, slots=True)
class Planned:
    """One instance in one task over one kind of evidence, for one system."""

    system: str
    task: Task
    evidence: EvidenceKind | None
    instance: Instance

    @property
    def row_id(self) -> str:
        """Of the row that answers it."""
        return row_id(self.system, self.task, self.evidence, self.instance.key)


def planned(
    instances: Sequence[Instance], tasks: Sequence[Task], kinds: Sequence[EvidenceKind]
) -> Iterator[Planned]:
    """Everything that the model is asked, in the order of instances, tasks and kinds.

    With PK come the bare questions (`closed_book`) and PK without its passage
    (`guard_removes`).
    """
    for instance in instances:
        for task in Task:
            if task not in tasks:
                continue
            if task is Task.PK:
                # Without a passage its kind cannot matter.
                for system in (CLOSED_BOOK, REMOVES):
                    yield Planned(system, task, None, instance)
            for kind in kinds:
                if kind in instance.evidence and _asks(task, kind, instance):
                    yield Planned(MODEL_SYSTEM, task, kind, instance)


def _asks(task: Task, kind: EvidenceKind, instance: Instance) -> bool:
    # A sentence can only be asked for where one of the passage answers.
    return task is not Task.KF or bool(instance.evidence[kind].sentences)


def right_roles(task: Task, kind: EvidenceKind | None) -> frozenset[str]:
    """The parts of the options that are right; none for KF, which has no options.

    CK: the context's answer. PK: the belief. PCK: both. RAG: the answers of both passages,
    of which one agrees with the belief.

    Example:
        >>> sorted(right_roles(Task.PCK, EvidenceKind.LPC))
        ['belief', 'implausible']
    """
    if task not in CHOICE_TASKS:
        return frozenset()
    context = {EvidenceKind.HPC: "plausible", EvidenceKind.HPCE: "plausible"}
    own = "implausible" if kind is EvidenceKind.LPC else "belief"
    from_context = context.get(kind, own) if kind is not None else "belief"
    if task is Task.CK:
        return frozenset({from_context})
    return frozenset({"belief"}) if task is Task.PK else frozenset({"belief", from_context})


def batches(plan: Sequence[Planned], instances: int) -> Iterator[list[Planned]]:
    """What is asked about so many instances, together."""
    batch: list[Planned] = []
    keys: set[str] = set()
    for one in plan:
        if one.instance.key not in keys and len(keys) == instances:
            yield batch
            batch, keys = [], set()
        keys.add(one.instance.key)
        batch.append(one)
    if batch:
        yield batch
