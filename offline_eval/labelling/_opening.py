"""Sessions of a run: of an annotator, and of who settles disagreements."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ..replies import RepliesRun
from ._artefacts import LabelSample
from ._criteria import LabelCriterion, in_asking_order
from ._label_log import LabelLog
from ._labels import CONSENSUS, Labels, checked_annotator, read_labels
from ._sample_file import FOLDER
from ._session import LabelSession, Opinion, SessionItem


def open_session(
    run: RepliesRun,
    sample: LabelSample,
    annotator: str,
    criteria: Sequence[LabelCriterion] = (),
) -> LabelSession:
    """A session in which one annotator labels the sample, blind to everybody else.

    Args:
        run: of the sample.
        sample: as `open_sample` gives it.
        annotator: a name that can be a file's.
        criteria: asked in this order; those of the sample where none is named.

    Raises:
        InputError: the name cannot be used, or the annotator's file is broken.
    """
    name = checked_annotator(annotator, where="--annotator")
    wanted = in_asking_order(criteria or sample.criteria)
    asked = frozenset(criterion.name for criterion in wanted)
    # Replies that were added later come last, or the order would change under the reader.
    order = sorted(
        sample.replies, key=lambda r: (r.batch, _shuffled(sample.seed, name, r.reply_id))
    )
    items = [SessionItem(reply.reply_id, asked) for reply in order]
    return LabelSession(run, wanted, items, _log_of(run, name), name)


def consensus_session(
    run: RepliesRun, settler: str, *, show_names: bool = False, labels: Labels | None = None
) -> LabelSession:
    """A session in which somebody settles what annotators disagree on.

    Only replies with different outcomes are in it, with what each annotator said.

    Args:
        run: whose labels they are.
        settler: who settles.
        show_names: say who said what; otherwise annotators are letters, dealt anew for
            each reply.
        labels: read from the run where None.

    Raises:
        InputError: the name cannot be used, or a file is broken.
    """
    name = checked_annotator(settler, where="--consensus")
    found = read_labels(run.folder) if labels is None else labels
    votes = {criterion.name: found.votes(criterion.name) for criterion in found.criteria}
    apart = {reply for criterion in votes for reply in found.disagreements(criterion)}
    seed = 0 if found.sample is None else found.sample.seed
    items = []
    for reply in sorted(apart & run.replies.keys(), key=lambda r: _shuffled(seed, CONSENSUS, r)):
        said = {name: set(votes[name].get(reply, {}).values()) for name in votes}
        disputed = {name for name, outcomes in said.items() if len(outcomes) > 1}
        # What is only asked after a disputed outcome may not have been asked at all.
        follows = {
            criterion.name
            for criterion in found.criteria
            if disputed & criterion.only_where.keys() and not said[criterion.name]
        }
        items.append(
            SessionItem(
                reply_id=reply,
                asked=frozenset(disputed | follows),
                known={name: min(values) for name, values in said.items() if len(values) == 1},
                opinions=_opinions(found, votes, reply, seed, show_names=show_names),
            )
        )
    return LabelSession(run, found.criteria, items, _log_of(run, CONSENSUS), name)


def _opinions(
    labels: Labels,
    votes: Mapping[str, Mapping[str, Mapping[str, str]]],
    reply: str,
    seed: int,
    *,
    show_names: bool,
) -> tuple[Opinion, ...]:
    notes = labels.notes(reply)
    who = [a for a in labels.annotators if any(a in v.get(reply, {}) for v in votes.values())]
    if not show_names:
        who.sort(key=lambda name: _shuffled(seed, name, reply))
    return tuple(
        Opinion(
            annotator=name if show_names else _letter(place),
            outcomes={c: v[reply][name] for c, v in votes.items() if name in v.get(reply, {})},
            note=notes.get(name, ""),
        )
        for place, name in enumerate(who)
    )


def _letter(place: int) -> str:
    return f"Annotator {chr(ord('A') + place) if place < 26 else place + 1}"


def _log_of(run: RepliesRun, name: str) -> LabelLog:
    return LabelLog(run.folder / FOLDER / f"{name}.jsonl")


def _shuffled(seed: int, who: str, reply_id: str) -> bytes:
    text = "\x1f".join((str(seed), "order", who, reply_id))
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
