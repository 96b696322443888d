"""The labels of one person: ask for them, store them, undo."""

from __future__ import annotations

import re
import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from ....guard.errors import InputError
from ....guard.files import AnyPath
from ...run import RepliesRun, Stored
from ...run.replies import ReplyContext, ReplyRow
from ...run.rows import inner_folder
from ...run.table import SharedLog
from ..llm_judge import LabelCriterion
from ._criteria import FOLDER, HumanLabel, by_chance, in_asking_order, load_criterion, open_sample
from ._labels import CONSENSUS, Labels, checked_annotator

# Overrides and isolates of the writing direction can make a text read otherwise than it is
# stored. The marks of right-to-left languages stay.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text as it is to be read: lines kept, nothing that acts on its surroundings.

    Example:
        >>> plain("one\\r\\ntwo\\x00\\u202e")
        'one\\ntwo\\ufffd'
    """
    text = _DIRECTION.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    # Control characters and halves of characters.
    acting = {s for s in set(text) - set("\n\t") if unicodedata.category(s) in ("Cc", "Cs")}
    return "".join("\ufffd" if sign in acting else sign for sign in text)


_LONGEST_NOTE = 5000


class NotAskedError(InputError):
    """A label that does not fit what is asked of the reply now."""

    def __init__(self) -> None:
        super().__init__("this is not asked of the reply now", hint="load the page again")


Row = TypeVar("Row", bound=Stored)
Dispute = tuple[Mapping[str, str], list[dict[str, Any]]]


class LoggedSession(ABC, Generic[Row]):
    """What a person says of one thing after the other; safe for many threads.

    Positions count from 0. Every change is on disk before a method returns; what other processes
    write is seen.

    Args:
        log: where it is stored.
        names: ids of the things, in the order in which they are shown.
    """

    settles = False

    def __init__(self, log: SharedLog[Row], names: Sequence[str]) -> None:
        self._log, self._names, self._lock = log, tuple(names), threading.Lock()
        # Per change the position, and what stood there before.
        self._changes: list[tuple[int, list[Row]]] = []
        self._said: dict[tuple[str, str], Row] = {}
        self._notes: dict[str, str] = {}
        self._read_bytes = -1
        self._refresh()

    def __len__(self) -> int:
        return len(self._names)

    def state(self) -> dict[str, Any]:
        """How far it is: per position `open`, `done` or `skipped`."""
        with self._current():
            return self._state()

    def undo(self) -> dict[str, Any]:
        """Take the last change back; `position` says where, None where there is none."""
        with self._current():
            if not self._changes:
                return {**self._state(), "position": None}
            position, before = self._changes[-1]
            now = self._blank(*self._key(before[0])).model_dump(include={"at"})
            self._append([row.model_copy(update=now) for row in before])
            self._changes.pop()
            return {**self._state(), "position": position}

    def note(self, position: int, note: str) -> dict[str, Any]:
        """Store a note without changing what was said beside it; see `label`."""
        with self._current():
            name = self._names[position]
            if self._notes.get(name, "") == clean_note(note):
                return self._state()
            key = name, self._steps(position)[0]["criterion"]
            return self._store(position, [self._row(key, note)])

    @abstractmethod
    def _key(self, row: Row) -> tuple[str, str]:
        """What a row is about, and by which criterion."""

    @abstractmethod
    def _blank(self, name: str, criterion: str) -> Row:
        """A row that says nothing, of now."""

    @abstractmethod
    def _steps(self, position: int) -> list[dict[str, Any]]:
        """The criteria that are asked as things stand, with what was said."""

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Alone, with what other processes wrote."""
        with self._lock:
            self._refresh()
            yield

    def _state(self) -> dict[str, Any]:
        statuses = [self._status(self._steps(at)) for at in range(len(self._names))]
        return {"statuses": statuses, "undoable": len(self._changes)}

    def _status(self, steps: Sequence[Mapping[str, Any]]) -> str:
        if any(step["skipped"] for step in steps):
            return "skipped"
        return "open" if any(step["outcome"] is None for step in steps) else "done"

    def _shown(self, position: int) -> dict[str, Any]:
        """What the page shows of what was said."""
        steps = self._steps(position)
        note = self._notes.get(self._names[position], "")
        return {"steps": steps, "status": self._status(steps), "note": note}

    def _row(self, key: tuple[str, str], note: str | None, **fields: object) -> Row:
        """What stands there, said anew: with these fields, and a note where one is given."""
        now = self._blank(*key).model_dump(include={"at", "annotator"})
        said = {} if note is None else {"note": clean_note(note)}
        return self._stood(key).model_copy(update={**now, **said, **fields})

    def _stood(self, key: tuple[str, str]) -> Row:
        """What stands there, with the note as it is now."""
        row = self._said.get(key) or self._blank(*key)
        return row.model_copy(update={"note": self._notes.get(key[0], "")})

    def _store(self, position: int, rows: Sequence[Row]) -> dict[str, Any]:
        before = [self._stood(self._key(row)) for row in rows]
        self._append(rows)
        self._changes.append((position, before))
        return self._state()

    def _append(self, rows: Sequence[Row]) -> None:
        self._log.append(rows)
        self._refresh()

    def _refresh(self) -> None:
        size = self._log.size()
        if size != self._read_bytes:
            self._said.clear()
            self._notes.clear()
            for _, row in self._log.places():
                key = self._key(row)
                self._said[key], self._notes[key[0]] = row, getattr(row, "note", "")
            self._read_bytes = size


class LabelSession(LoggedSession[HumanLabel]):
    """A person's labels of a fixed list of replies, in an order of their own.

    Args:
        run: that the replies are of.
        criteria: asked in this order.
        asked: ids of the replies in the order in which they are shown, and the criteria that are
            open to a label.
        log: where labels go.
        annotator: who labels.
        disputes: where disagreements are settled, by reply: outcomes that stand already, of
            criteria that are not asked, and what others said, as the page shows it.
    """

    def __init__(
        self,
        run: RepliesRun,
        criteria: Sequence[LabelCriterion],
        asked: Mapping[str, Collection[str]],
        log: SharedLog[HumanLabel],
        annotator: str,
        disputes: Mapping[str, Dispute] | None = None,
    ) -> None:
        self.criteria = {criterion.name: criterion for criterion in criteria}
        self.annotator = annotator
        self.settles = disputes is not None
        self._run, self._asked, self._disputes = run, asked, disputes or {}
        super().__init__(log, tuple(asked))

    @classmethod
    def annotate(
        cls,
        run: RepliesRun,
        annotator: str,
        *,
        size: int | None = None,
        seed: int | None = None,
        criteria: Sequence[AnyPath] = (),
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
        named = [load_criterion(name) for name in dict.fromkeys(criteria)]
        # Before the sample: a bad name must not leave one behind.
        name = checked_annotator(annotator, where="--annotator")
        sample = open_sample(run, size=size, seed=seed, criteria=named)
        wanted = in_asking_order(named or sample.criteria)
        names = [criterion.name for criterion in wanted]
        # Replies that were added later come last, or the order would change under the reader.
        order = sorted(
            sample.replies,
            key=lambda r: (r.batch, by_chance(sample.seed, "order", name, r.reply_id)),
        )
        asked = {reply.reply_id: names for reply in order}
        return cls(run, wanted, asked, _log_of(run, name), name)

    def asked(self) -> list[dict[str, Any]]:
        """What the page asks of replies: questions, outcomes and their keys."""
        return [_asked(criterion) for criterion in self.criteria.values()]

    def item(self, position: int) -> dict[str, Any]:
        """What the page shows of a reply, without the passages of its context.

        No ids: they name the system, the guard and the kind of case. No judgements.

        Raises:
            IndexError: no such position.
        """
        reply = self._run.replies[self._names[position]]
        question = self._run.question_of(reply)
        view: dict[str, Any] = {
            "question": plain(question.question),
            "expected": plain(question.answer),
            "response": plain(reply.response or ""),
            "citation": plain(reply.citation or ""),
            "context": self._context_words(reply),
        }
        if self.settles:
            view["opinions"] = self._disputes[self._names[position]][1]
        with self._current():
            return {**view, **self._shown(position)}

    def _context_words(self, reply: ReplyRow) -> dict[str, Any]:
        number = len(self._run.context_passages(reply))
        words = f"{number} passage{'' if number == 1 else 's'}"
        if (reply.context or ReplyContext()).kind == "none":
            number, words = 0, "The model was given no context."
        elif number == 0:
            words = "It is not known what the model was given to read."
        return {"passages": number, "words": words}

    def context(self, position: int) -> list[str]:
        """The passages that the reply was given, as texts in their order.

        Raises:
            IndexError: no such position.
        """
        reply = self._run.replies[self._names[position]]
        return [plain(passage.text) for passage in self._run.context_passages(reply)]

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
            NotAskedError: the criterion or the outcome is not asked of it.
            InputError: it cannot be stored.
        """
        with self._current():
            name, steps = self._names[position], self._steps(position)
            asked = any(step["criterion"] == criterion for step in steps)
            if not asked or outcome not in self.criteria[criterion].outcomes:
                raise NotAskedError
            rows = [self._row((name, criterion), note, outcome=outcome, skipped=False)]
            for child in self.criteria.values():
                # What was asked only after another outcome lapses with it.
                asked = outcome in child.only_where.get(criterion, (outcome,))
                said = self._said.get((name, child.name))
                if not asked and said and said.outcome:
                    rows.append(self._row((name, child.name), note, outcome=None, skipped=False))
            return self._store(position, rows)

    def skip(self, position: int, note: str | None = None) -> dict[str, Any]:
        """Leave a reply undecided; see `label` for arguments, result and errors."""
        with self._current():
            name, steps = self._names[position], self._steps(position)
            unsaid = [step for step in steps if step["outcome"] is None]
            # One that was labelled already is skipped as a whole.
            keys = [(name, step["criterion"]) for step in unsaid[:1] or steps[-1:]]
            rows = [self._row(key, note, outcome=None, skipped=True) for key in keys]
            return self._store(position, rows)

    def _key(self, row: HumanLabel) -> tuple[str, str]:
        return row.reply_id, row.criterion

    def _blank(self, name: str, criterion: str) -> HumanLabel:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return HumanLabel(reply_id=name, criterion=criterion, annotator=self.annotator, at=at)

    def _steps(self, position: int) -> list[dict[str, Any]]:
        steps = []
        reply = self._names[position]
        outcomes = dict(self._disputes[reply][0]) if self.settles else {}
        for name, criterion in self.criteria.items():
            conditions = {
                other: wanted
                for other, wanted in criterion.only_where.items()
                if other in self.criteria
            }
            applies = all(outcomes.get(other) in wanted for other, wanted in conditions.items())
            if name not in self._asked[reply] or not applies:
                continue
            said = self._said.get((reply, name)) or self._blank(reply, name)
            if said.outcome is not None:
                outcomes[name] = said.outcome
            steps.append({"criterion": name, "outcome": said.outcome, "skipped": said.skipped})
        return steps

    @classmethod
    def consensus(
        cls,
        run: RepliesRun,
        settler: str,
    ) -> LabelSession:
        """A session in which somebody settles what annotators disagree on.

        Only replies with different outcomes are in it, with what each annotator said; annotators
        are letters, dealt anew for each reply.

        Args:
            run: whose labels they are.
            settler: who settles.

        Raises:
            InputError: the name cannot be used, or a file is broken.
        """
        name = checked_annotator(settler, where="--consensus")
        found = Labels.read(run.folder)
        votes = {criterion.name: found.votes(criterion.name) for criterion in found.criteria}
        apart = {reply for criterion in votes for reply in found.disagreements(criterion)}
        seed = 0 if found.sample is None else found.sample.seed
        asked, disputes = dict[str, set[str]](), dict[str, Dispute]()
        for reply in sorted(
            apart & run.replies.keys(), key=lambda r: by_chance(seed, "order", CONSENSUS, r)
        ):
            said = {name: set(votes[name].get(reply, {}).values()) for name in votes}
            disputed = {name for name, outcomes in said.items() if len(outcomes) > 1}
            # What is only asked after a disputed outcome may not have been asked at all.
            follows = {
                criterion.name
                for criterion in found.criteria
                if disputed & criterion.only_where.keys() and not said[criterion.name]
            }
            asked[reply] = disputed | follows
            known = {name: min(values) for name, values in said.items() if len(values) == 1}
            disputes[reply] = known, _opinions(found, votes, reply, seed)
        return cls(run, found.criteria, asked, _log_of(run, CONSENSUS), name, disputes)


def clean_note(note: str) -> str:
    """A note as it is stored: bounded, and without what JSON and terminals cannot take."""
    whole = note.encode("utf-8", "replace").decode("utf-8")
    return whole.replace("\x00", "").strip()[:_LONGEST_NOTE]


def _asked(criterion: LabelCriterion) -> dict[str, Any]:
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


def _opinions(
    labels: Labels,
    votes: Mapping[str, Mapping[str, Mapping[str, str]]],
    reply: str,
    seed: int,
) -> list[dict[str, Any]]:
    """What each annotator said of a reply, for whoever settles disagreements."""
    notes = labels.notes(reply)
    who = [a for a in labels.annotators if any(a in v.get(reply, {}) for v in votes.values())]
    who.sort(key=lambda name: by_chance(seed, "order", name, reply))
    return [
        {
            "annotator": f"Annotator {chr(ord('A') + place) if place < 26 else place + 1}",
            "outcomes": {c: v[reply][name] for c, v in votes.items() if name in v.get(reply, {})},
            "note": plain(notes.get(name, "")),
        }
        for place, name in enumerate(who)
    ]


def _log_of(run: RepliesRun, name: str) -> SharedLog[HumanLabel]:
    return SharedLog(inner_folder(run.folder, FOLDER) / f"{name}.jsonl", HumanLabel)
