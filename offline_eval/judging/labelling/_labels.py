"""Read all labels of a run, and find what people agree on."""

from __future__ import annotations

import csv
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from ....calibration import Interval
from ....guard.errors import InputError
from ....guard.files import AnyPath, atomic_writer
from ...data.fields import as_cell
from ...run import RepliesRun
from ...run.rows import inner_folder
from ...run.table import SharedLog
from ..chance_agreement import cohens_kappa, fleiss_kappa, krippendorff_alpha
from ..llm_judge import LabelCriterion
from ._criteria import (
    FOLDER,
    USUAL_CRITERIA,
    HumanLabel,
    LabelSample,
    read_sample,
)

Row = Mapping[str, Any]


def write_export(
    path: AnyPath,
    rows: Sequence[Row],
    columns: Sequence[str],
    flat: Callable[[Row], Row] = dict,
) -> None:
    """Write rows as CSV, with texts that a spreadsheet runs made harmless, or as JSON lines.

    Args:
        path: ends in .csv or .jsonl.
        rows: values that JSON can hold.
        columns: of the CSV.
        flat: makes a row of CSV, by column, of a row.

    Raises:
        InputError: another suffix, or the file cannot be written.
    """
    as_csv = is_csv(path, "--export")
    with atomic_writer(path) as stream:
        if not as_csv:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            return
        writer = csv.DictWriter(stream, columns, lineterminator="\r\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in flat(row).items()})


def is_csv(path: AnyPath, option: str) -> bool:
    """Whether a file is CSV by its name, and not JSON lines.

    Raises:
        InputError: it is neither.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".jsonl"):
        raise InputError(
            "is neither CSV nor JSON lines",
            where=f"{option} {os.fspath(path)}",
            hint="end the name in .csv or .jsonl",
        )
    return kind == ".csv"


def _cell(value: Any) -> Any:
    # NUL ends a file for some readers of CSV.
    return as_cell(value.replace("\x00", "\ufffd")) if isinstance(value, str) else value


# Name of the file of settled disagreements, beside the annotators' files.
CONSENSUS = "_consensus"

_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


@dataclass(frozen=True)
class Labels:
    """The labels of a run as they stand now.

    Attributes:
        sample: what was to be labelled, None where labels came without one.
        given: labels that count, per annotator; skipped ones and those taken back are in
            it without an outcome.
        settled: what disagreements were settled to.
    """

    sample: LabelSample | None
    given: Mapping[str, tuple[HumanLabel, ...]]
    settled: tuple[HumanLabel, ...] = ()

    @classmethod
    def read(cls, folder: AnyPath) -> Labels:
        """Read all labels of a run; there are none where nobody labelled.

        Args:
            folder: of the run.

        Raises:
            InputError: a file is broken, or a label is none of its criterion's outcomes, with
                its line.
        """
        root = inner_folder(folder, FOLDER)
        sample = read_sample(folder)
        own = sample.criteria if sample else ()
        outcomes = {criterion.name: criterion.outcomes for criterion in (*USUAL_CRITERIA, *own)}
        given = {
            path.stem: latest(_checked_labels(path, outcomes))
            for path in sorted(root.glob("*.jsonl"))
            if not path.name.startswith(("_", "."))
        }
        settled = latest(_checked_labels(root / f"{CONSENSUS}.jsonl", outcomes))
        return cls(sample=sample, given=given, settled=settled)

    @property
    def annotators(self) -> tuple[str, ...]:
        """All who labelled, by name."""
        return tuple(self.given)

    @property
    def criteria(self) -> tuple[LabelCriterion, ...]:
        """What was asked; without a sample, the usual ones."""
        return USUAL_CRITERIA if self.sample is None else self.sample.criteria

    def votes(self, criterion: str) -> dict[str, dict[str, str]]:
        """Reply id → annotator → outcome, of all replies that somebody labelled."""
        found: dict[str, dict[str, str]] = {}
        for annotator, labels in self.given.items():
            for label in labels:
                if label.criterion == criterion and label.outcome is not None:
                    found.setdefault(label.reply_id, {})[annotator] = label.outcome
        return found

    def consensus(self, criterion: str) -> dict[str, str]:
        """Reply id → outcome that people agreed on.

        What somebody settled counts first, then what more than half of those who labelled
        the reply said. A tie is left out until it is settled. A criterion that is asked
        only after another outcome (factuality: of replies that do not abstain) has no
        consensus where the other criterion has another one, or none yet.
        """
        found = {
            name: outcome
            for name, votes in self.votes(criterion).items()
            if (outcome := majority(tuple(votes.values()))) is not None
        }
        for label in self.settled:
            if label.criterion == criterion and label.outcome is not None:
                found[label.reply_id] = label.outcome
        for other, outcomes in self._conditions(criterion).items():
            before = self.consensus(other)
            asked = self.votes(other).keys() | before.keys()
            found = {
                name: outcome
                for name, outcome in found.items()
                if name not in asked or before.get(name) in outcomes
            }
        return found

    def disagreements(self, criterion: str) -> tuple[str, ...]:
        """Ids of replies that got different outcomes, settled or not."""
        return tuple(
            name for name, votes in self.votes(criterion).items() if len(set(votes.values())) > 1
        )

    def unsettled(self, criterion: str) -> tuple[str, ...]:
        """Ids of replies that have labels and no consensus, because no outcome has a majority.

        Those that the criterion turned out not to be asked of are not among them.
        """
        agreed, conditions = self.consensus(criterion), self._conditions(criterion)
        before = {other: self.consensus(other) for other in conditions}
        return tuple(
            name
            for name, votes in self.votes(criterion).items()
            if name not in agreed
            and majority(tuple(votes.values())) is None
            and all(before[other].get(name) in (None, *conditions[other]) for other in conditions)
        )

    def notes(self, reply_id: str) -> dict[str, str]:
        """Annotator → note on a reply, where there is one."""
        found = {}
        for annotator, labels in self.given.items():
            said = [label for label in labels if label.reply_id == reply_id]
            if said and said[-1].note:
                found[annotator] = said[-1].note
        return found

    def inclusion_probability(self, reply_id: str) -> float | None:
        """How likely the reply was to be sampled; None for one that was not drawn."""
        return self._chances.get(reply_id)

    def weights(self, names: Collection[str]) -> dict[str, float] | None:
        """One over the chance of each reply to be sampled; None where all weigh the same."""
        found = {name: 1.0 / (self._chances.get(name) or 1.0) for name in names}
        return found if len(set(found.values())) > 1 else None

    def _conditions(self, criterion: str) -> Mapping[str, tuple[str, ...]]:
        found = [known.only_where for known in self.criteria if known.name == criterion]
        return found[0] if found else {}

    @cached_property
    def _chances(self) -> dict[str, float]:
        replies = () if self.sample is None else self.sample.replies
        return {reply.reply_id: reply.inclusion_probability for reply in replies}

    def export(self, run: RepliesRun, path: AnyPath) -> int:
        """Write every reply that is in the sample or has a label, as CSV or JSON lines.

        In CSV a text that a spreadsheet would take for a formula gets an apostrophe in front;
        JSON lines hold every text as it is.

        Args:
            run: whose labels they are.
            path: ends in .csv or .jsonl.

        Returns:
            How many replies were written.

        Raises:
            InputError: another suffix, or the file cannot be written.
        """
        rows = list(_rows(run, self))
        nothing: Row = {"labels": {}, "consensus": {}, "notes": {}}
        write_export(path, rows, list(_flat(self, nothing)), partial(_flat, self))
        return len(rows)


def majority(outcomes: Sequence[str]) -> str | None:
    """What more than half say, None where there is no such outcome.

    Example:
        >>> majority(["yes", "yes", "no"]), majority(["yes", "no"])
        ('yes', None)
    """
    if not outcomes:
        return None
    outcome, times = Counter(outcomes).most_common(1)[0]
    return outcome if 2 * times > len(outcomes) else None


def _checked_labels(path: Path, outcomes: Mapping[str, Sequence[str]]) -> list[HumanLabel]:
    labels = []
    for where, label in SharedLog(path, HumanLabel).places():
        # Labels by other criteria may have any outcome.
        allowed = outcomes.get(label.criterion)
        if label.outcome is not None and allowed and label.outcome not in allowed:
            what = f"{label.outcome[:60]!r} is not an outcome of {label.criterion[:60]!r}"
            hint = f"choose one of {', '.join(allowed)}, or move the file away"
            raise InputError(what, where=where, hint=hint)
        labels.append(label)
    return labels


def latest(labels: Sequence[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Of each reply and criterion the last label, in the order in which these were given."""
    found: dict[tuple[str, str], HumanLabel] = {}
    for label in labels:
        key = (label.reply_id, label.criterion)
        found.pop(key, None)
        found[key] = label
    return tuple(found.values())


def checked_annotator(name: str, *, where: str) -> str:
    """Check that an annotator's name can name a file, and return it.

    Raises:
        InputError: it cannot.
    """
    normal = unicodedata.normalize("NFC", name)
    if not _NAME.fullmatch(normal):
        hint = "use up to 64 letters, digits, dots, hyphens, underscores; a letter or digit first"
        raise InputError(f"{name[:80]!r} cannot be an annotator's name", where=where, hint=hint)
    return normal


def _rows(run: RepliesRun, labels: Labels) -> Iterator[dict[str, Any]]:
    votes = {criterion.name: labels.votes(criterion.name) for criterion in labels.criteria}
    settled = {name: labels.consensus(name) for name in votes}
    chances = labels._chances
    wanted = chances.keys() | {reply for vote in votes.values() for reply in vote}
    for reply_id, reply in run.replies.items():
        if reply_id not in wanted:
            continue
        question = run.question_of(reply)
        yield {
            "reply_id": reply_id,
            "question": question.question,
            "expected": question.answer,
            "response": reply.response,
            "inclusion_probability": chances.get(reply_id),
            "labels": {name: dict(vote.get(reply_id, {})) for name, vote in votes.items()},
            "consensus": {name: found.get(reply_id) for name, found in settled.items()},
            "notes": labels.notes(reply_id),
        }


_TEXTS = ("reply_id", "question", "expected", "response", "inclusion_probability")


def _flat(labels: Labels, row: Row) -> dict[str, Any]:
    """A row as one of CSV, with a cell for all that anybody may have said."""
    found = {name: row.get(name) for name in _TEXTS}
    for criterion in (one.name for one in labels.criteria):
        given = row["labels"].get(criterion, {})
        found |= {f"{criterion}: {who}": given.get(who) for who in labels.annotators}
        # An annotator may bear this name too, hence the brackets.
        found[f"{criterion} (consensus)"] = row["consensus"].get(criterion)
    return found | {f"note: {who}": row["notes"].get(who) for who in labels.annotators}


class Agreement:
    """Agreement on one criterion, before any settling; no number is weighted: it is of the replies.

    Args:
        labels: of a run.
        criterion: name of one of theirs; nothing is known of one that nobody labelled by.
        run: of the labels: replies to one question are then drawn together, as they are
            likely to be alike, and each `n` counts questions. Otherwise replies are taken
            for independent.

    Attributes:
        criterion: its name.
        annotators: all who labelled by it.
        replies: labelled by at least one.
        by_two: labelled by at least two.
        by_all: labelled by all annotators.
        disagreements: replies with different outcomes.
        cohen: kappa per pair of annotators, over the replies that both labelled.
        fleiss: kappa over the replies that all annotators labelled, which it needs.
        alpha: nominal, over all replies with two labels or more.
        ordinal_alpha: for outcomes in order; None for others.
    """

    def __init__(self, labels: Labels, criterion: str, *, run: RepliesRun | None = None) -> None:
        votes = labels.votes(criterion)
        voted = {name for vote in votes.values() for name in vote}
        who = tuple(name for name in labels.annotators if name in voted)
        table = [[vote.get(name) for name in who] for vote in votes.values()]
        groups = [reply if run is None else _question(run, reply) for reply in votes]
        complete = [place for place, row in enumerate(table) if None not in row]
        self.criterion, self.annotators = criterion, who
        self.replies, self.by_all = len(table), len(complete)
        self.by_two = sum(len(vote) > 1 for vote in votes.values())
        self.disagreements = len(labels.disagreements(criterion))
        columns = list(zip(*table, strict=True))
        self.cohen = {
            (who[a], who[b]): cohens_kappa(columns[a], columns[b], groups=groups)
            for a, b in combinations(range(len(who)), 2)
        }
        units = [groups[place] for place in complete]
        self.fleiss = fleiss_kappa([table[place] for place in complete], groups=units)
        self.alpha = krippendorff_alpha(table, groups=groups)
        self.ordinal_alpha = None
        for known in labels.criteria:
            if known.name == criterion and known.ordinal:
                self.ordinal_alpha = krippendorff_alpha(table, order=known.outcomes, groups=groups)

    @classmethod
    def of(cls, labels: Labels, criterion: str, *, run: RepliesRun | None = None) -> Agreement:
        """Measure how far all annotators agree on one criterion; see the class."""
        return cls(labels, criterion, run=run)

    @property
    def pair(self) -> Interval | None:
        """Cohen's kappa where there is one pair of annotators; None of more or none."""
        return next(iter(self.cohen.values())) if len(self.cohen) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; pairs of names, which JSON cannot key by, become a list."""
        pairs = [{"annotators": list(pair), **one.to_dict()} for pair, one in self.cohen.items()]
        return {
            "annotators": list(self.annotators),
            **{name: getattr(self, name) for name in ("replies", "by_two", "by_all")},
            "disagreements": self.disagreements,
            "cohen": pairs,
            "fleiss": self.fleiss.to_dict(),
            "alpha": self.alpha.to_dict(),
            "ordinal_alpha": self.ordinal_alpha and self.ordinal_alpha.to_dict(),
        }


def _question(run: RepliesRun, reply_id: str) -> str:
    # A label of a reply that the run has not stands by itself.
    reply = run.replies.get(reply_id)
    return reply_id if reply is None else run.case_of(reply).question_id
