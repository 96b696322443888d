"""Read the rows of any run folder into one shape: what the viewer shows and filters by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, FiniteFloat

from ...guard.errors import InputError
from ...guard.files import read_text
from ...guard.policy import Policy
from ..judging.labelling import Labels
from ..run import RepliesRun, RowError, Stored
from ..run.manifest import Manifest
from ..run.measured_run import MeasuredRun, Review
from ..run.replies import ReplyContext, ReplyRow
from ..run.table import TableSpec
from ..suites.ookb.signals import decide_by_relevance

_HINT = "make the run again into another folder, or name another run"
_JUDGED = ("right", "correct", "abstained", "misled", "parametric", "believed")
_EMPTY: tuple[Any, ...] = ("", None, [])
# Shown in places of their own, hence not in the table of further fields.
_SHOWN = frozenset({"question", "response", "answer", "context", "retrieved", "scores", "error"})


def _signal(name: str, value: float, threshold: float | None = None) -> dict[str, Any]:
    """A measured value with the threshold from which on it passes, None where not known."""
    return {"name": name, "value": value, "threshold": threshold}


def _verdict(label: str, detail: str = "") -> dict[str, str]:
    """What a judge, a person or the suite says, e.g. `abstention: yes (detector)`, and why."""
    return {"label": label, "detail": detail}


@dataclass
class Record:
    """One row of a run.

    Attributes:
        key: identifies the row in its run.
        pair: identifies the case for every system and run, so that two can be compared.
        passages: ids and raw scores of what was retrieved, best first.
        context: what the model was given: `passages`, `none`, `all_but` these, or `unknown`.
        signals: what was measured, with thresholds.
        verdicts: labels and reasons.
        fields: whatever else the row holds.
        run: name of its run in the viewer.
    """

    key: str
    pair: str
    system: str = ""
    kind: str = ""
    route: str = ""
    reason: str = ""
    score: float | None = None
    question: str = ""
    expected: str = ""
    reply: str = ""
    error: str = ""
    passages: list[tuple[str, float | None]] = field(default_factory=list)
    context: str = ""
    signals: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[dict[str, str]] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    run: str = ""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Its verdicts without reasons, and `error` where there is one."""
        failed = ["error"] if self.error else []
        return tuple(sorted({*(one["label"] for one in self.verdicts), *failed}))


RunRecords = tuple[str, int | None, Mapping[str, tuple[str, str]], Sequence[Record]]
"""A run as the viewer reads it: its suite (`measure` for a run of relevance signals), the number of
rows of the finished run (None where the manifest does not say), passages (id → text and source),
and a record per row."""


class _Row(Stored):
    """A row of any suite: the fields that suites share are checked, others are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    relevance: FiniteFloat | None = None
    confidence: FiniteFloat | None = None
    raw_relevance: FiniteFloat | None = None
    error: RowError | str | None = None

    def text(self, *names: str) -> str:
        """Return the first of these fields that is a text and not empty; else an empty one."""
        texts = (_extra(self, name) for name in names)
        return next((text for text in texts if isinstance(text, str) and text), "")


def read_records(folder: Path, policies: Mapping[str, Policy]) -> RunRecords:
    """Read a run of any suite.

    Args:
        folder: of the run.
        policies: by sha256 of the file: their thresholds are shown with replies that such a
            policy decided on.

    Raises:
        InputError: there is no run, or a file is broken (with the line).
    """
    suite = str(Manifest.read_raw(folder).get("suite") or "")
    if not suite:
        raise InputError(
            "is no run of a suite",
            where=str(folder),
            hint="name a folder made with `knowgate measure`, `eval` or `import`",
        )
    if RepliesRun.is_in(folder):
        return _replies(RepliesRun.read(folder), policies)
    return _measured(folder) if suite == "ookb" else _suite_rows(folder, suite)


def _replies(run: RepliesRun, policies: Mapping[str, Policy]) -> RunRecords:
    verdicts = _verdicts(run)
    guards = {one.system_id: policies.get(one.guard_sha256) for one in run.manifest.systems}
    records = []
    for row in run.replies.values():
        asked, context = run.question_of(row), row.context or ReplyContext()
        records.append(
            Record(
                row.reply_id,
                row.case_id,
                system=row.system_id,
                kind=run.case_of(row).kind.value,
                route="" if row.route is None else row.route.value,
                reason=row.reason,
                score=row.relevance,
                question=asked.question,
                expected=asked.answer,
                reply=row.response or "",
                error="" if row.error is None else str(row.error),
                passages=[(name, None) for name in context.passages],
                context=context.kind,
                signals=_signals(row, guards[row.system_id]),
                verdicts=verdicts.get(row.reply_id, []),
                fields=_rest(row),
            )
        )
    texts = {name: (one.text, one.source or "") for name, one in run.passages.items()}
    return "ookb", run.manifest.replies, texts, records


def _verdicts(run: RepliesRun) -> dict[str, list[dict[str, str]]]:
    """Verdicts of judges and of people, by reply."""
    found: dict[str, list[dict[str, str]]] = {}
    for one in run.judgements.values():
        said, why = ("failed", str(one.error)) if one.error else (one.outcome, one.reasoning)
        label = f"{one.criterion}: {said} ({one.judge})"
        found.setdefault(one.reply_id, []).append(_verdict(label, why))
    labels = Labels.read(run.folder)
    for criterion in labels.criteria if labels.annotators else ():
        for reply, votes in labels.votes(criterion.name).items():
            found.setdefault(reply, []).extend(
                _verdict(f"{criterion.name}: {outcome} ({person})")
                for person, outcome in votes.items()
            )
    return found


def _measured(folder: Path) -> RunRecords:
    run = MeasuredRun.read(folder, unfinished=True)
    texts = {name: (q.passage, q.source or "") for name, q in run.questions.items() if q.passage}
    texts |= {q.own_passage: texts[name] for name, q in run.questions.items() if name in texts}
    texts |= {name: (one.text, one.source or "") for name, one in run.passages.items()}
    policy = None if run.calibration is None else run.calibration.policy
    own = {} if run.calibration is None else run.calibration.thresholds
    records = []
    for row in run.rows:
        asked = run.questions[row.question_id]
        about = {name: getattr(asked, name) for name in ("source", "topic", "knowledge_base")}
        record = Record(
            row.case_id,
            row.case_id,
            system=run.manifest.settings.scorer.kind,
            kind=row.kind.value,
            score=row.raw_relevance,
            question=asked.question,
            expected=asked.answer,
            error="" if row.error is None else str(row.error),
            passages=list(zip(row.retrieved, row.scores, strict=False)),
            context="passages",
            fields={name.replace("_", " "): value for name, value in about.items() if value},
        )
        if policy is not None and row.error is None:
            _decide(record, policy, own.get(row.question_id), row.question_id in own)
        elif row.raw_relevance is not None:
            record.signals = [_signal("raw relevance", row.raw_relevance)]
        review = run.reviews.get(row.case_id)
        record.verdicts = _outcome(record, missed=row.retrieval_miss, review=review)
        records.append(record)
    return "measure", run.manifest.cases, texts, records


def _decide(record: Record, policy: Policy, threshold: float | None, others: bool) -> None:
    """Fill in what the run's policy says, or the threshold that the question is judged by."""
    raw = record.score if record.passages else None
    found = decide_by_relevance(policy, raw)
    relevance = found.relevance or 0.0
    record.route, record.reason, record.score = str(found.route), str(found.reason), relevance
    record.signals = [_signal("relevance", relevance, policy.relevance_threshold)]
    if raw is not None:
        record.signals.append(_signal("raw relevance", raw, threshold if others else None))
    if others and raw is not None:
        passes = threshold is not None and raw >= threshold
        record.route = "follow_context" if passes else "abstain"
        record.reason = "threshold that it is judged by"


_WITHOUT_ANSWER = ("left_out", "echo", "synthetic", "unanswerable")


def _outcome(record: Record, *, missed: bool, review: Review | None) -> list[dict[str, str]]:
    elsewhere = review is not None and review.answered
    left_out = record.kind in _WITHOUT_ANSWER and not elsewhere
    abstained = record.kind == "in_kb" and record.route == "abstain"
    said = {
        "retrieval miss": missed,
        "leak": left_out and record.route == "follow_context",
        "false abstention": abstained and not missed,
    }
    found = [_verdict(label) for label, holds in said.items() if holds]
    if review is not None:
        found.append(_verdict(f"review: {review.verdict}", review.note))
    return found


def _suite_rows(folder: Path, suite: str) -> RunRecords:
    """Rows of any other suite, with the questions that tables beside them hold."""
    rows = _first_table(folder)
    asked = _asked(folder, rows)
    texts: dict[str, tuple[str, str]] = {}
    records = []
    for row in rows:
        about = next((asked[name] for name in _names(row) if name in asked), _Row())
        key, system = row.text("row_id", "case_id", "key"), row.text("system", "method")
        kind = row.text("context_kind", "evidence", "kind", "form")
        shown = {
            f"{about.text('case_id', 'key')}#{kind}#{number}": (text, "")
            for number, text in enumerate(_texts_of(about, kind))
        }
        texts |= shown
        record = Record(
            key,
            key.removeprefix(system).lstrip("/|") or key,
            system=system,
            kind=kind,
            route=row.text("route"),
            reason=row.text("reason"),
            score=row.relevance if row.relevance is not None else row.raw_relevance,
            question=row.text("question") or about.text("question"),
            expected=about.text("answer") or _listed(_extra(about, "answers")),
            reply=row.text("answer" if _extra(row, "response") is None else "response"),
            error="" if row.error is None else str(row.error),
            passages=[(name, None) for name in shown],
            signals=_signals(row, None),
            verdicts=[
                _verdict(f"{name}: {'yes' if value else 'no'}")
                for name in _JUDGED
                if isinstance(value := _extra(row, name), bool)
            ],
            fields=_rest(row),
        )
        records.append(record)
    return suite, None, texts, records


def _signals(row: _Row | ReplyRow, policy: Policy | None) -> list[dict[str, Any]]:
    return [
        _signal(name, value, getattr(policy, f"{name}_threshold", None))
        for name in ("relevance", "confidence")
        if (value := getattr(row, name)) is not None
    ]


def _rest(row: _Row | ReplyRow) -> dict[str, Any]:
    """The further fields of a row that hold something."""
    kept = row.model_dump(mode="json", exclude_defaults=True)
    return {
        name: value for name, value in kept.items() if name not in _SHOWN and value not in _EMPTY
    }


def _extra(row: _Row, name: str) -> Any:
    return (row.model_extra or {}).get(name)


def _listed(value: Any) -> str:
    return " · ".join(map(str, value)) if isinstance(value, list) else ""


def _texts_of(about: _Row, kind: str) -> list[str]:
    """Texts that a suite's own table gives for a case."""
    given = _extra(about, "passages")
    if isinstance(given, list):
        return [text for text in given if isinstance(text, str)]
    evidence = _extra(about, "evidence")
    shown = evidence.get(kind) if isinstance(evidence, dict) else None
    if isinstance(shown, dict):
        both = (shown.get("passage"), shown.get("second"))
        return [text for text in both if isinstance(text, str) and text]
    return []


def _first_table(folder: Path) -> list[_Row]:
    path = folder / "rows.jsonl"
    if not path.is_file():
        raise InputError("there is no rows.jsonl", where=str(folder), hint=_HINT)
    line = read_text(path, links=False).partition("\n")[0]
    # What is no row is told with its line by the reading.
    key = next((name for name in ("row_id", "case_id", "key") if f'"{name}":' in line), "row_id")
    return _spec("rows", key).read(folder)


def _asked(folder: Path, rows: Sequence[_Row]) -> dict[str, _Row]:
    """Questions by the ids that rows name them by."""
    wanted = {name for row in rows for name in _names(row)}
    found: dict[str, _Row] = {}
    for name, key in (("cases", "case_id"), ("instances", "key"), ("questions", "question_id")):
        if (folder / f"{name}.jsonl").is_file():
            for row in _spec(name, key, whole=True).read(folder):
                if (identifier := row.text(key)) in wanted:
                    found.setdefault(identifier, row)
    return found


def _names(row: _Row) -> tuple[str, ...]:
    case = row.text("case_id")
    # A method stands before the case in runs of UniKnow.
    names = (case.partition("|")[2], case, row.text("key"), row.text("question_id"))
    return tuple(filter(None, names))


def _spec(name: str, key: str, *, whole: bool = False) -> TableSpec[_Row]:
    return TableSpec(name, _Row, key, hint=_HINT, whole=whole)
