"""The labels of one person: ask for them, store them, undo."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from ....guard.errors import InputError
from ...run import RepliesRun, Run, Stored
from ...run.replies import ReplyContext
from ...run.table import SharedLog
from ._criteria import (
    FOLDER,
    HumanLabel,
    LabelCriterion,
    LabelSample,
    in_asking_order,
    load_criterion,
    open_sample,
)
from ._labels import CONSENSUS, Labels, checked_annotator

# Overrides and isolates of the writing direction can make a text read otherwise than it is
# stored. The marks of right-to-left languages stay.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


def item_view(run: RepliesRun, reply_id: str) -> dict[str, Any]:
    """Question, expected answer, reply and citation, and what kind of context there was.

    No ids: they name the system, the guard and the kind of case. No judgements.
    """
    reply = run.replies[reply_id]
    question = run.question_of(reply)
    return {
        "question": plain(question.question),
        "expected": plain(question.answer),
        "response": plain(reply.response or ""),
        "citation": plain(reply.citation or ""),
        "context": _context_words(run, reply_id),
    }


def context_view(run: RepliesRun, reply_id: str) -> list[str]:
    """The passages in the context of a reply, as texts in their order."""
    return [plain(passage.text) for passage in run.context_passages(run.replies[reply_id])]


def plain(text: str) -> str:
    """Text as it is to be read: lines kept, nothing that acts on its surroundings.

    Example:
        >>> plain("one\\r\\ntwo\\x00\\u202e")
        'one\\ntwo\\ufffd'
    """
    text = _DIRECTION.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join("\ufffd" if _acts(sign) else sign for sign in text)


def _acts(sign: str) -> bool:
    # Control characters and halves of characters.
    return sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cs")


def _context_words(run: RepliesRun, reply_id: str) -> dict[str, Any]:
    reply = run.replies[reply_id]
    context = reply.context or ReplyContext()
    number = len(run.context_passages(reply))
    if context.kind == "none":
        return {"passages": 0, "words": "The model was given no context."}
    if number == 0:
        return {"passages": 0, "words": "It is not known what the model was given to read."}
    return {"passages": number, "words": f"{number} passage{'' if number == 1 else 's'}"}


def criterion_view(criterion: LabelCriterion) -> dict[str, Any]:
    """What the page asks: the question, and the outcomes with their keys."""
    meanings = criterion.meanings or ("",) * len(criterion.outcomes)
    yes_no = set(criterion.outcomes) == {"yes", "no"}
    return {
        "name": criterion.name,
        "question": plain(criterion.question) or f"{plain(criterion.name)}: which one?",
        "outcomes": [
            {
                "outcome": outcome,
                "text": plain(outcome),
                "meaning": plain(meaning),
                "key": outcome[0] if yes_no else str(number),
                "number": str(number),
            }
            for number, (outcome, meaning) in enumerate(
                zip(criterion.outcomes, meanings, strict=True), start=1
            )
        ],
    }


_LONGEST_NOTE = 5000


class NotAskedError(InputError):
    """A label that does not fit what is asked of the reply now."""

    def __init__(self) -> None:
        super().__init__("this is not asked of the reply now", hint="load the page again")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one annotator said of a reply, for whoever settles disagreements."""

    annotator: str
    outcomes: Mapping[str, str]
    note: str


@dataclass(frozen=True, slots=True)
class SessionItem:
    """A reply to be labelled.

    Attributes:
        reply_id: never shown; it names the system.
        asked: criteria that are open to a label.
        known: outcomes that stand already, of criteria that are not asked.
        opinions: of others; empty unless disagreements are settled.
    """

    reply_id: str
    asked: frozenset[str]
    known: Mapping[str, str] = field(default_factory=dict)
    opinions: tuple[Opinion, ...] = ()


Row = TypeVar("Row", bound=Stored)


class LoggedSession(ABC, Generic[Row]):
    """What a person says of one thing after the other; safe for many threads.

    Positions count from 0. Every change is on disk before a method returns; what other processes
    write is seen.

    Args:
        log: where it is stored.
    """

    settles = False

    def __init__(self, log: SharedLog[Row]) -> None:
        self._log, self._lock = log, threading.Lock()
        # Per change the position, and what stood there before.
        self._changes: list[tuple[int, list[Row]]] = []
        self._read_bytes = -1
        self._refresh()

    def state(self) -> dict[str, Any]:
        """How far it is: per position `open`, `done` or `skipped`."""
        with self._lock:
            self._refresh()
            return self._state()

    def undo(self) -> dict[str, Any]:
        """Take the last change back; `position` says where, None where there is none."""
        with self._lock:
            self._refresh()
            if not self._changes:
                return {**self._state(), "position": None}
            position, before = self._changes[-1]
            self._append([row.model_copy(update={"at": self._now()}) for row in before])
            self._changes.pop()
            return {**self._state(), "position": position}

    @abstractmethod
    def _statuses(self) -> list[str]:
        """`open`, `done` or `skipped`, per position."""

    @abstractmethod
    def _now(self) -> object:
        """The time, as rows hold it."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget all rows."""

    @abstractmethod
    def _take(self, rows: Sequence[Row]) -> None:
        """Take rows in, as they stand in the log."""

    def _state(self) -> dict[str, Any]:
        return {"statuses": self._statuses(), "undoable": len(self._changes)}

    def _change(self, position: int, rows: Sequence[Row], before: list[Row]) -> dict[str, Any]:
        self._append(rows)
        self._changes.append((position, before))
        return self._state()

    def _append(self, rows: Sequence[Row]) -> None:
        expected = self._read_bytes + self._log.append(rows)
        if self._log.size() == expected:
            self._take(rows)
            self._read_bytes = expected
        else:
            # Another process wrote too.
            self._refresh()

    def _refresh(self) -> None:
        size = self._log.size()
        if size != self._read_bytes:
            self._forget()
            self._take([row for _, row in self._log.places()])
            self._read_bytes = size


class LabelSession(LoggedSession[HumanLabel]):
    """A person's labels of a fixed list of replies, in an order of their own.

    Args:
        run: that the replies are of.
        criteria: asked in this order.
        items: in the order in which they are shown.
        log: where labels go.
        annotator: who labels.

    Attributes:
        NotAskedError: what `label` raises of a label that does not fit.
    """

    NotAskedError: ClassVar = NotAskedError

    def __init__(
        self,
        run: RepliesRun,
        criteria: Sequence[LabelCriterion],
        items: Sequence[SessionItem],
        log: SharedLog[HumanLabel],
        annotator: str,
    ) -> None:
        self.criteria = tuple(criteria)
        self.annotator = annotator
        self.settles = log.path.stem == CONSENSUS
        self._run, self._items = run, tuple(items)
        super().__init__(log)

    @classmethod
    def annotate(
        cls,
        run: RepliesRun,
        annotator: str,
        *,
        size: int | None = None,
        seed: int | None = None,
        criteria: Sequence[str | os.PathLike[str]] = (),
    ) -> LabelSession:
        """Open a session in which one annotator labels the sample, blind to everybody else.

        Args:
            run: finished.
            annotator: a name that can be a file's.
            size: replies to label, the same for all annotators; the sample may grow. As many
                as before, or else 100, where it is None.
            seed: of the sample and the orders; the stored one, or else 0, where it is None.
            criteria: names, or files; those labelled by before, or else abstention and
                factuality, where none is given.

        Raises:
            InputError: a name, a criterion or the run cannot be used, or contradicts what is
                stored.
        """
        wanted = [load_criterion(name) for name in dict.fromkeys(criteria)]
        # Before the sample: a bad name must not leave one behind.
        name = checked_annotator(annotator, where="--annotator")
        sample = open_sample(run, size=size, seed=seed, criteria=wanted)
        return open_session(run, sample, name, wanted)

    def __len__(self) -> int:
        return len(self._items)

    def asked(self) -> list[dict[str, Any]]:
        """What the page asks of replies: questions, outcomes and their keys."""
        return [criterion_view(criterion) for criterion in self.criteria]

    def item(self, position: int) -> dict[str, Any]:
        """What the page shows of a reply, without the passages of its context.

        Raises:
            IndexError: no such position.
        """
        with self._lock:
            self._refresh()
            item = self._items[position]
            view = item_view(self._run, item.reply_id)
            view["steps"] = self._steps(item)
            view["status"] = self._status(item)
            view["note"] = self._notes.get(item.reply_id, "")
            if self.settles:
                view["opinions"] = [
                    {"annotator": o.annotator, "outcomes": dict(o.outcomes), "note": plain(o.note)}
                    for o in item.opinions
                ]
            return view

    def context(self, position: int) -> list[str]:
        """The passages that the reply was given, as texts in their order.

        Raises:
            IndexError: no such position.
        """
        return context_view(self._run, self._items[position].reply_id)

    def label(
        self, position: int, criterion: str, outcome: str, note: str | None = None
    ) -> dict[str, Any]:
        """Label a reply, or label it anew.

        Args:
            position: of the reply.
            criterion: one that is asked of it now.
            outcome: one of the criterion's.
            note: on the reply; as it was, where it is None.

        Returns:
            The state after it.

        Raises:
            IndexError: no such position.
            NotAskedError: the criterion or the outcome is not asked of this reply.
            InputError: the label cannot be stored.
        """
        with self._lock:
            self._refresh()
            item = self._items[position]
            if outcome not in self._outcomes_of(item, criterion):
                raise NotAskedError
            rows = [self._row(item, criterion, outcome, note=note)]
            for child in self.criteria:
                # What was asked only after another outcome lapses with it.
                asked = outcome in child.only_where.get(criterion, (outcome,))
                said = self._said.get((item.reply_id, child.name))
                if not asked and said and said.outcome:
                    rows.append(self._row(item, child.name, None, note=note))
            return self._store(position, rows)

    def skip(self, position: int, note: str | None = None) -> dict[str, Any]:
        """Leave a reply undecided; see `label` for arguments, result and errors."""
        with self._lock:
            self._refresh()
            item = self._items[position]
            steps = self._steps(item)
            unsaid = [step["criterion"] for step in steps if step["outcome"] is None]
            # One that was labelled already is skipped as a whole.
            named = unsaid[:1] or [step["criterion"] for step in steps[-1:]]
            rows = [self._row(item, name, None, note=note, skipped=True) for name in named]
            return self._store(position, rows)

    def note(self, position: int, note: str) -> dict[str, Any]:
        """Store the note on a reply without labelling it; see `label`."""
        with self._lock:
            self._refresh()
            item = self._items[position]
            if self._notes.get(item.reply_id, "") == clean_note(note):
                return self._state()
            steps = self._steps(item)
            said = self._said.get((item.reply_id, steps[0]["criterion"]))
            row = self._row(
                item,
                steps[0]["criterion"],
                None if said is None else said.outcome,
                note=note,
                skipped=said is not None and said.skipped,
            )
            return self._store(position, [row])

    def _store(self, position: int, rows: Sequence[HumanLabel]) -> dict[str, Any]:
        return self._change(position, rows, [self._as_it_stood(row) for row in rows])

    def _as_it_stood(self, row: HumanLabel) -> HumanLabel:
        said = self._said.get((row.reply_id, row.criterion))
        unsaid = row.model_copy(update={"outcome": None, "skipped": False})
        return (said or unsaid).model_copy(update={"note": self._notes.get(row.reply_id, "")})

    def _now(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds")

    def _forget(self) -> None:
        self._said: dict[tuple[str, str], HumanLabel] = {}
        self._notes: dict[str, str] = {}

    def _take(self, rows: Sequence[HumanLabel]) -> None:
        for label in rows:
            self._said[label.reply_id, label.criterion] = label
            self._notes[label.reply_id] = label.note

    def _row(
        self,
        item: SessionItem,
        criterion: str,
        outcome: str | None,
        *,
        note: str | None,
        skipped: bool = False,
    ) -> HumanLabel:
        return HumanLabel(
            reply_id=item.reply_id,
            criterion=criterion,
            outcome=outcome,
            annotator=self.annotator,
            note=self._notes.get(item.reply_id, "") if note is None else clean_note(note),
            at=self._now(),
            skipped=skipped,
        )

    def _statuses(self) -> list[str]:
        return [self._status(item) for item in self._items]

    def _status(self, item: SessionItem) -> str:
        steps = self._steps(item)
        if any(step["skipped"] for step in steps):
            return "skipped"
        return "open" if any(step["outcome"] is None for step in steps) else "done"

    def _steps(self, item: SessionItem) -> list[dict[str, Any]]:
        """The criteria that are asked of a reply as things stand, with what was said."""
        steps = []
        outcomes = dict(item.known)
        for criterion in self.criteria:
            said = self._said.get((item.reply_id, criterion.name))
            if criterion.name not in item.asked or not self._applies(criterion, outcomes):
                continue
            outcome = None if said is None else said.outcome
            if outcome is not None:
                outcomes[criterion.name] = outcome
            skipped = said is not None and said.skipped
            steps.append({"criterion": criterion.name, "outcome": outcome, "skipped": skipped})
        return steps

    def _applies(self, criterion: LabelCriterion, outcomes: Mapping[str, str]) -> bool:
        names = {known.name for known in self.criteria}
        return all(
            outcomes.get(before) in wanted
            for before, wanted in criterion.only_where.items()
            if before in names
        )

    def _outcomes_of(self, item: SessionItem, name: str) -> tuple[str, ...]:
        asked = {step["criterion"] for step in self._steps(item)}
        for criterion in self.criteria:
            if criterion.name == name and name in asked:
                return criterion.outcomes
        return ()

    @classmethod
    def consensus(
        cls,
        run: RepliesRun,
        settler: str,
        *,
        show_names: bool = False,
        labels: Labels | None = None,
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
        found = Labels.read(run.folder) if labels is None else labels
        votes = {criterion.name: found.votes(criterion.name) for criterion in found.criteria}
        apart = {reply for criterion in votes for reply in found.disagreements(criterion)}
        seed = 0 if found.sample is None else found.sample.seed
        items = []
        for reply in sorted(
            apart & run.replies.keys(), key=lambda r: _shuffled(seed, CONSENSUS, r)
        ):
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
        return cls(run, found.criteria, items, _log_of(run, CONSENSUS), name)


def clean_note(note: str) -> str:
    """A note as it is stored: bounded, and without what JSON and terminals cannot take."""
    whole = note.encode("utf-8", "replace").decode("utf-8")
    return whole.replace("\x00", "").strip()[:_LONGEST_NOTE]


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


def _log_of(run: RepliesRun, name: str) -> SharedLog[HumanLabel]:
    return SharedLog(Run.inner_folder(run.folder, FOLDER) / f"{name}.jsonl", HumanLabel)


def _shuffled(seed: int, who: str, reply_id: str) -> bytes:
    text = "\x1f".join((str(seed), "order", who, reply_id))
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
