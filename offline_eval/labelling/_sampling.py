"""Which replies people are asked to label: a stratified sample that can grow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ..replies import RepliesRun, ReplyRow
from ._artefacts import SampledReply


@dataclass(frozen=True, slots=True)
class Stratum:
    """Replies made alike: of one system, to one kind of case, on one knowledge base.

    Attributes:
        key: model, prompt, retrieval, guard, knowledge base, kind of case.
        replies: ids of all that have a text, in the order in which they are drawn.
    """

    key: tuple[str, ...]
    replies: tuple[str, ...]


def strata_of(run: RepliesRun, seed: int) -> tuple[Stratum, ...]:
    """All strata of a run, in the order in which they get their first reply drawn."""
    found: dict[tuple[str, ...], list[str]] = {}
    for reply in run.replies.values():
        if reply.response is not None:
            found.setdefault(_key(run, reply), []).append(reply.reply_id)
    return tuple(
        Stratum(key, tuple(sorted(found[key], key=lambda name: _draw(seed, "reply", name))))
        for key in sorted(found, key=lambda key: _draw(seed, "stratum", *key))
    )


def draw_sample(strata: Sequence[Stratum], size: int) -> list[SampledReply]:
    """A proportional sample with at least one reply of each stratum where `size` allows.

    A larger `size` with the same strata keeps all that a smaller one draws: places go to
    strata one after the other by Sainte-Laguë's rule, after one for each. With fewer
    places than strata, chance decides which strata get one, all alike; a reply of a large
    stratum is then less likely to be drawn than one of a small stratum, which its
    inclusion probability says.

    Args:
        strata: in the order in which they get their first place.
        size: replies wanted; all of them where there are fewer.

    Returns:
        The sample in the order in which it was drawn, all of batch 0.

    Example:
        >>> strata = [Stratum(("a",), ("a1", "a2", "a3", "a4")), Stratum(("b",), ("b1",))]
        >>> [(r.reply_id, r.inclusion_probability) for r in draw_sample(strata, 3)]
        [('a1', 0.5), ('b1', 1.0), ('a2', 0.5)]
    """
    order = _places(strata, size)
    taken = [order.count(position) for position in range(len(strata))]
    # Which strata are in at all is certain once each has a place.
    in_at_all = min(1.0, size / len(strata)) if strata else 1.0
    next_of = [0] * len(strata)
    sample = []
    for position in order:
        stratum = strata[position]
        sample.append(
            SampledReply(
                reply_id=stratum.replies[next_of[position]],
                inclusion_probability=in_at_all * taken[position] / len(stratum.replies),
            )
        )
        next_of[position] += 1
    return sample


def _places(strata: Sequence[Stratum], size: int) -> list[int]:
    """Positions of the strata in the order in which places go to them."""
    sizes = [len(stratum.replies) for stratum in strata]
    places = list(range(len(sizes)))[:size]
    taken = [1 if position in places else 0 for position in range(len(sizes))]
    for _ in range(min(size, sum(sizes)) - len(places)):
        open_ones = [p for p in range(len(sizes)) if taken[p] < sizes[p]]
        best = max(open_ones, key=lambda p: (sizes[p] / (taken[p] + 0.5), -p))
        taken[best] += 1
        places.append(best)
    return places


def _key(run: RepliesRun, reply: ReplyRow) -> tuple[str, ...]:
    system, case = run.systems[reply.system_id], run.case_of(reply)
    return (
        system.model,
        system.prompt,
        system.retrieval,
        system.guard,
        case.knowledge_base,
        case.kind.value,
    )


def _draw(seed: int, *names: str) -> bytes:
    """A number that chance gives a name: the same on every machine."""
    return hashlib.sha256("\x1f".join((str(seed), *names)).encode("utf-8", "replace")).digest()
