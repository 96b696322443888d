"""Read the rows of any run folder into one shape: what the viewer shows and filters by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, FiniteFloat

from ...guard.errors import InputError
from ...guard.files import read_text
from ...guard.policy import Policy
from ..data.graph.layout import UaqData
from ..judging.labelling import Labels
from ..run import RepliesRun, RowError, Stored
from ..run.manifest import Manifest
from ..run.measured_run import MeasuredRun
from ..run.questions import CaseKind, RunCalibration
from ..run.replies import ReplyContext, ReplyRow
from ..run.table import TableSpec
from ..suites.ookb.signals import ScoredCase

_HINT = "make the run again into another folder, or name another run"
_JUDGED = ("right", "correct", "abstained", "misled", "parametric", "believed")
_EMPTY: tuple[Any, ...] = ("", None, [])
# Kinds of cases that may pass; of live ones nobody knows.
_ANSWERABLE = (CaseKind.IN_KB, CaseKind.LIVE)
# Shown in places of their own, hence not in the table of further fields.
_SHOWN = frozenset({"question", "response", "answer", "context", "retrieved", "scores", "error"})


@dataclass
class Record:
    """One row of a run.

    Attributes:
        key: identifies the row in its run.
        pair: identifies the case for every system and run, so that two can be compared.
        passages: ids and raw scores of what was retrieved, best first.
        context: what the model was given: `passages`, `none`, `all_but` these, or `unknown`.
        signals: what was measured: its value, and the threshold from which on it passes, None
            where that is not known.
        verdicts: what judges, people or the suite say, e.g. `abstention: yes (detector)`, and why.
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
    signals: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    run: str = ""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Its verdicts without reasons, and `error` where there is one."""
        return tuple(sorted({*self.verdicts, *(["error"] if self.error else [])}))


# A run as the viewer reads it: its suite (`measure` for a run of relevance signals), the number of
# rows of the finished run (None where the manifest does not say), passages (id → text and source),
# and a record per row.
RunRecords = tuple[str, int | None, Mapping[str, tuple[str, str]], Sequence[Record]]


class _Row(Stored):
    """A row of any suite: the fields that suites share are checked, others are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    relevance: FiniteFloat | None = None
    confidence: FiniteFloat | None = None
    raw_relevance: FiniteFloat | None = None
    route: Any = None
    reason: Any = None
    error: RowError | str | None = None

    def text(self, *names: str) -> str:
        """Return the first of these fields that is a text and not empty; else an empty one."""
        texts = (self.further(name) for name in names)
        return next((text for text in texts if isinstance(text, str) and text), "")

    def further(self, name: str) -> Any:
        """Return a field that not all suites have; None where the row has none."""
        return (self.model_extra or {}).get(name)


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
        hint = "name a folder made with `knowgate measure`, `eval` or `import`"
        raise InputError("is no run of a suite", where=str(folder), hint=hint)
    if RepliesRun.is_in(folder):
        return _replies(RepliesRun.read(folder), policies)
    return _measured(folder) if suite == "ookb" else _suite_rows(folder, suite)


def _replies(run: RepliesRun, policies: Mapping[str, Policy]) -> RunRecords:
    verdicts = _verdicts(run)
    guards = {one.system_id: policies.get(one.guard_sha256) for one in run.manifest.systems}
    records = []
    for row in run.replies.values():
        asked, context = run.question_of(row), row.context or ReplyContext()
        record = Record(
            row.reply_id,
            row.case_id,
            row.system_id,
            run.case_of(row).kind.value,
            **_decided(row, guards[row.system_id]),
            question=asked.question,
            expected=asked.answer,
            reply=row.response or "",
            passages=[(name, None) for name in context.passages],
            context=context.kind,
            verdicts=verdicts[row.reply_id],
        )
        records.append(record)
    texts = {name: (one.text, one.source or "") for name, one in run.passages.items()}
    return "ookb", run.manifest.replies, texts, records


def _decided(row: _Row | ReplyRow, policy: Policy | None) -> dict[str, Any]:
    """What rows of replies and of other suites share: the decision, and what else they hold."""
    kept = row.model_dump(mode="json", exclude_defaults=True)
    measured = {name: getattr(row, name) for name in ("relevance", "confidence")}
    return {
        "route": str(row.route or ""),
        "reason": str(row.reason or ""),
        "score": getattr(row, "raw_relevance", None) if row.relevance is None else row.relevance,
        "error": "" if row.error is None else str(row.error),
        "signals": {
            name: (value, getattr(policy, f"{name}_threshold", None))
            for name, value in measured.items()
            if value is not None
        },
        "fields": {
            name: value
            for name, value in kept.items()
            if name not in _SHOWN and value not in _EMPTY
        },
    }


def _verdicts(run: RepliesRun) -> defaultdict[str, dict[str, str]]:
    """Verdicts of judges and of people, by reply."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for one in run.judgements.values():
        said, why = ("failed", str(one.error)) if one.error else (one.outcome, one.reasoning)
        found[one.reply_id][f"{one.criterion}: {said} ({one.judge})"] = why
    labels = Labels.read(run.folder)
    for criterion in labels.criteria if labels.annotators else ():
        for reply, votes in labels.votes(criterion.name).items():
            for person, outcome in votes.items():
                found[reply][f"{criterion.name}: {outcome} ({person})"] = ""
    return found


def _measured(folder: Path) -> RunRecords:
    run = MeasuredRun.read(folder, unfinished=True)
    texts = {name: (q.passage, q.source or "") for name, q in run.questions.items() if q.passage}
    texts |= {q.own_passage: texts[name] for name, q in run.questions.items() if name in texts}
    texts |= {name: (one.text, one.source or "") for name, one in run.passages.items()}
    records = []
    for row in run.rows:
        asked = run.questions[row.question_id]
        about = {name: getattr(asked, name) for name in ("source", "topic", "knowledge_base")}
        record = Record(
            row.case_id,
            row.case_id,
            run.manifest.settings.scorer.kind,
            row.kind.value,
            score=row.raw_relevance,
            question=asked.question,
            expected=asked.answer,
            error="" if row.error is None else str(row.error),
            passages=list(zip(row.retrieved, row.scores, strict=False)),
            context="passages",
            fields={name.replace("_", " "): value for name, value in about.items() if value},
        )
        case = ScoredCase(run, row, 0.0)
        _decide(record, case, run.calibration)
        passes, review = record.route == "follow_context", run.reviews.get(row.case_id)
        said = {
            "retrieval miss": row.retrieval_miss,
            "leak": passes and row.kind not in _ANSWERABLE and not case.elsewhere,
            "false abstention": case.found and record.route == "abstain",
        }
        record.verdicts = {label: "" for label, holds in said.items() if holds}
        if review is not None:
            record.verdicts[f"review: {review.verdict}"] = review.note
        records.append(record)
    return "measure", run.manifest.cases, texts, records


def _decide(record: Record, case: ScoredCase, calibration: RunCalibration | None) -> None:
    """Fill in what the run's policy says, or the threshold that the question is judged by."""
    row, threshold = case.row, None
    if calibration is not None and case.decision is not None and row.error is None:
        threshold = calibration.thresholds.get(row.question_id)
        by_threshold = row.question_id in calibration.thresholds and row.retrieved
        record.route = "follow_context" if case.passes and row.retrieved else "abstain"
        reason = "threshold that it is judged by" if by_threshold else case.decision.reason
        record.reason, record.score = str(reason), case.relevance or 0.0
        record.signals["relevance"] = record.score, calibration.policy.relevance_threshold
    if row.raw_relevance is not None and (row.retrieved or not record.route):
        record.signals["raw relevance"] = row.raw_relevance, threshold


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
        answers = about.further("answers")
        listed = " · ".join(map(str, answers)) if isinstance(answers, list) else ""
        judged = {name: row.further(name) for name in _JUDGED}
        record = Record(
            key,
            key.removeprefix(system).lstrip("/|") or key,
            system,
            kind,
            **_decided(row, None),
            question=row.text("question") or about.text("question"),
            expected=about.text("answer") or listed,
            reply=row.text("answer" if row.further("response") is None else "response"),
            passages=[(name, None) for name in shown],
            verdicts={
                f"{name}: {'yes' if value else 'no'}": ""
                for name, value in judged.items()
                if isinstance(value, bool)
            },
        )
        records.append(record)
    return suite, None, texts, records


def _texts_of(about: _Row, kind: str) -> list[str]:
    """Texts that a suite's own table gives for a case."""
    given, evidence = about.further("passages"), about.further("evidence")
    if not isinstance(given, list):
        shown = evidence.get(kind) if isinstance(evidence, dict) else None
        shown = shown if isinstance(shown, dict) else {}
        given = [shown.get("passage"), shown.get("second")]
    return [text for text in given if isinstance(text, str) and text]


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
    # Another suite may have a folder of that name.
    layout = folder / "questions"
    return found | (_in_layout(layout) if (layout / "task1").is_dir() else {})


def _in_layout(folder: Path) -> dict[str, _Row]:
    """Questions of UAQFact, which a run holds in their own layout."""
    data = UaqData.read(folder)
    known = [(one.key, one.question, one.answers) for one in data.items]
    told = {key: (text, [one.label for one in answers]) for key, text, answers in known}
    told |= {one.key: (one.question, [one.target]) for one in data.choices}
    return {
        key: _Row.model_validate({"question": text, "answers": answers})
        for key, (text, answers) in told.items()
    }


def _names(row: _Row) -> tuple[str, ...]:
    case = row.text("case_id")
    # A method stands before the case in runs of UniKnow.
    names = (case.partition("|")[2], case, row.text("key"), row.text("question_id"))
    return tuple(filter(None, names))


def _spec(name: str, key: str, *, whole: bool = False) -> TableSpec[_Row]:
    return TableSpec(name, _Row, key, hint=_HINT, whole=whole)
