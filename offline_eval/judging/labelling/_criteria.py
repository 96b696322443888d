"""Criteria, labels and samples of labelling."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ....guard.errors import InputError
from ....guard.files import AnyPath, json_sha256, write_json
from ....guard.read_models import check_model
from ...run import RepliesRun, Stored
from ...run.grouping import grouped
from ...run.manifest import Manifest
from ...run.questions import Identifier
from ...run.replies import ReplyRow
from ...run.rows import inner_folder, locked
from ..llm_judge import Criterion, LabelCriterion, read_table

_HINT = (
    'the file needs "name" (text) and "outcomes" (2 to 9 different texts); "question", '
    '"meanings" (one per outcome) and "ordinal" (true or false) may be there'
)


# Without what judges alone need.
USUAL_CRITERIA = tuple(
    LabelCriterion.model_validate(one.model_dump()) for one in Criterion.bundled()[:2]
)
_BUILT_IN = {found.name: found for found in USUAL_CRITERIA}


def load_criterion(name: AnyPath) -> LabelCriterion:
    """Load a criterion by name (`abstention`, `factuality`), or from a TOML or JSON file.

    A file that defines a criterion for judges serves for people too.

    Raises:
        InputError: neither a name nor such a file.
    """
    text = os.fspath(name)
    if text in _BUILT_IN:
        return _BUILT_IN[text]
    if Path(text).suffix.lower() not in (".toml", ".json"):
        hint = f"choose {' or '.join(_BUILT_IN)}, or name a .toml or .json file"
        raise InputError(f"no such criterion: {text[:80]!r}", where="--criterion", hint=hint)
    found = check_model(LabelCriterion, read_table(text), where=text, hint=_HINT)
    if found.name in _BUILT_IN:
        raise InputError(
            f"the name {found.name!r} is taken by a criterion of its own",
            where=text,
            hint="choose another name",
        )
    return found


def in_asking_order(
    criteria: Iterable[LabelCriterion],
    where: str = "--criterion",
) -> tuple[LabelCriterion, ...]:
    """The criteria, each after those that decide whether it is asked; otherwise as given.

    Raises:
        InputError: two of them wait for each other.
    """
    waiting = {criterion.name: criterion for criterion in criteria}
    ordered: list[LabelCriterion] = []
    while waiting:
        free = [c for c in waiting.values() if not waiting.keys() & c.only_where.keys()]
        if not free:
            raise InputError(
                f"{min(waiting)!r} waits for an outcome that waits for it",
                where=where,
                hint='change "only_where" in its file',
            )
        ordered.append(waiting.pop(free[0].name))
    return tuple(ordered)


class HumanLabel(Stored):
    """A line of `labels/NAME.jsonl`. Of one reply and criterion the last line counts.

    Attributes:
        criterion: name of the criterion.
        outcome: one of the criterion's; None where the reply was skipped, or a label was
            taken back.
        annotator: who said so.
        note: on the reply, as it stood when this was said.
        at: UTC time in ISO format.
        skipped: the annotator looked at it and did not want to decide.
    """

    reply_id: Identifier
    criterion: Identifier
    outcome: str | None = None
    annotator: Identifier
    note: str = ""
    at: str = ""
    skipped: bool = False


class SampledReply(Stored):
    """One reply that is to be labelled.

    Attributes:
        inclusion_probability: how likely it was to be drawn, in (0, 1]; a mean over the
            labelled replies that is weighted with its inverse speaks for the whole run.
        batch: 0 for those drawn first, 1 for those added when the sample first grew, …
    """

    reply_id: Identifier
    inclusion_probability: Annotated[float, Field(gt=0, le=1)]
    batch: Annotated[int, Field(ge=0)] = 0


class LabelSample(Stored):
    """`labels/_sample.json`: the same for all annotators.

    Attributes:
        seed: of the draw, and of each annotator's order.
        replies_sha256: of all replies with a text that it was drawn from.
        population: how many those were.
        criteria: all that somebody was asked to label by.
        replies: in the order in which they were drawn.
    """

    seed: Annotated[int, Field(ge=0)]
    replies_sha256: str
    population: Annotated[int, Field(ge=0)]
    criteria: tuple[LabelCriterion, ...] = ()
    replies: tuple[SampledReply, ...] = ()


# Ids of all replies with a text that were made alike, in the order in which they are drawn.
#
# Alike are replies of one system, to one kind of case, on one knowledge base.
Stratum = tuple[str, ...]


def strata_of(run: RepliesRun, seed: int) -> list[Stratum]:
    """All strata of a run, in the order in which they get their first reply drawn."""
    with_text = (reply for reply in run.replies.values() if reply.response is not None)
    found = grouped(with_text, lambda reply: _key(run, reply))
    return [
        tuple(
            sorted((one.reply_id for one in found[key]), key=lambda n: by_chance(seed, "reply", n))
        )
        for key in sorted(found, key=lambda key: by_chance(seed, "stratum", *key))
    ]


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
        >>> strata = [("a1", "a2", "a3", "a4"), ("b1",)]
        >>> [(r.reply_id, r.inclusion_probability) for r in draw_sample(strata, 3)]
        [('a1', 0.5), ('b1', 1.0), ('a2', 0.5)]
    """
    order = _places(strata, size)
    taken, replies = Counter(order), [iter(stratum) for stratum in strata]
    # Which strata are in at all is certain once each has a place.
    in_at_all = min(1.0, size / len(strata)) if strata else 1.0
    return [
        SampledReply(
            reply_id=next(replies[position]),
            inclusion_probability=in_at_all * taken[position] / len(strata[position]),
        )
        for position in order
    ]


def _places(strata: Sequence[Stratum], size: int) -> list[int]:
    """Positions of the strata in the order in which places go to them."""
    sizes = [len(stratum) for stratum in strata]
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
    made_by = system.model, system.prompt, system.retrieval, system.guard
    return (*made_by, case.knowledge_base, case.kind.value)


def by_chance(seed: int, *names: str) -> bytes:
    """A number that chance gives a name: the same on every machine."""
    return hashlib.sha256("\x1f".join((str(seed), *names)).encode("utf-8", "replace")).digest()


FOLDER = "labels"
_FILE = "_sample.json"
_USUAL_SIZE = 100


def read_sample(folder: AnyPath) -> LabelSample | None:
    """Read the sample of a run; None where none was drawn yet.

    Args:
        folder: of the run.

    Raises:
        InputError: the file is broken or was written by a newer knowgate.
    """
    path = inner_folder(folder, FOLDER) / _FILE
    if not path.exists():
        return None
    hint = "fix it, or move the labels folder away"
    value = Manifest.read_versioned(path, hint=hint)
    sample = LabelSample.checked(value, where=str(path), hint=hint)
    in_asking_order(sample.criteria, str(path))
    return sample


def open_sample(
    run: RepliesRun,
    *,
    size: int | None = None,
    seed: int | None = None,
    criteria: Sequence[LabelCriterion] = (),
) -> LabelSample:
    """Draw the sample of a run, or return the stored one, grown if a larger one is wanted.

    What was sampled stays sampled. Safe to call from several processes at once.

    Args:
        run: finished; its replies may not change any more.
        size: replies to label; the stored number, or else 100, where it is None.
        seed: of the draw; the stored one, or else 0, where it is None.
        criteria: to label by, added to those that are stored; abstention and factuality
            where none is named or stored.

    Raises:
        InputError: the run is unfinished, has no replies, or differs from what was
            sampled; or the arguments contradict what is stored.
    """
    _require_finished(run)
    with locked(inner_folder(run.folder, FOLDER) / "_sample", wait=True):
        texts = _replies_with_text(run)
        digest, found = json_sha256(sorted(texts.items())), read_sample(run.folder)
        begun = found or LabelSample(seed=seed or 0, replies_sha256=digest, population=len(texts))
        merged = begun.model_copy(update={"criteria": _merged(begun, criteria)})
        _require_same(run, begun, digest, size, seed)
        sample = _grown(run, merged, size)
        if sample != found:
            value = {"schema_version": Manifest.SCHEMA_VERSION, **sample.model_dump(mode="json")}
            write_json(run.folder / FOLDER / _FILE, value)
    return sample


def _grown(run: RepliesRun, found: LabelSample, size: int | None) -> LabelSample:
    """The sample with more replies, where more are wanted; those are a batch of their own."""
    have = len(found.replies)
    size = (have or _USUAL_SIZE) if size is None else size
    if min(size, found.population) <= have:
        return found
    batches = {reply.reply_id: reply.batch for reply in found.replies}
    new = max(batches.values(), default=-1) + 1
    replies = tuple(
        reply.model_copy(update={"batch": batches.get(reply.reply_id, new)})
        for reply in draw_sample(strata_of(run, found.seed), size)
    )
    return found.model_copy(update={"replies": replies})


def _merged(found: LabelSample, criteria: Sequence[LabelCriterion]) -> tuple[LabelCriterion, ...]:
    stored = {known.name: known for known in found.criteria}
    for wanted in criteria or (() if stored else USUAL_CRITERIA):
        known = stored.setdefault(wanted.name, wanted)
        if known.outcomes != wanted.outcomes or known.ordinal != wanted.ordinal:
            raise InputError(
                f"{wanted.name!r} has other outcomes here than what was labelled before",
                where="--criterion",
                hint="give the new criterion another name",
            )
    return in_asking_order(stored.values())


def _require_finished(run: RepliesRun) -> None:
    have, whole = len(run.replies), run.manifest.replies
    if have < whole:
        what = f"the run is not finished ({have} of {whole} replies), so no sample speaks for it"
        hint = "finish it with the command that began it"
        raise InputError(what, where=str(run.folder), hint=hint)
    if not _replies_with_text(run):
        raise InputError(
            "the run has no reply that could be labelled",
            where=str(run.folder),
            hint="name a run whose calls went well",
        )


def _require_same(
    run: RepliesRun, found: LabelSample, digest: str, size: int | None, seed: int | None
) -> None:
    names = Counter(reply.reply_id for reply in found.replies)
    strangers = [name for name, times in names.items() if times > 1 or name not in run.replies]
    what, hint = "", "fix it, or move the labels folder away"
    if found.replies_sha256 != digest:
        what = "the replies are not those that were sampled"
        hint = "label the new replies in a folder of their own, or move the labels away"
    elif strangers:
        what = f"the reply {strangers[0][:80]!r} is not in the run, or twice in the sample"
    elif seed not in (None, found.seed):
        what = f"the sample was drawn with seed {found.seed}, not {seed}"
        hint = "leave --seed out"
    elif size is not None and size < len(found.replies):
        what = f"the sample has {len(found.replies)} replies already and can only grow"
        hint = "leave --sample out"
    if what:
        raise InputError(what, where=str(run.folder / FOLDER / _FILE), hint=hint)


def _replies_with_text(run: RepliesRun) -> dict[str, str]:
    replies = run.replies.values()
    return {one.reply_id: one.response for one in replies if one.response is not None}
