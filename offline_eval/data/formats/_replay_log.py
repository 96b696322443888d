"""Read logs of replies, one JSON object per line, whatever tool wrote them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ....guard.files import read_jsonl
from ....guard.text import clean_text
from ...run import CaseKind

_ID_FIELDS = ("id", "question_id", "identifier")
_QUESTION_FIELDS = ("question", "query")
_ANSWER_FIELDS = ("expected_answer", "answer")
_RESPONSE_FIELDS = ("response", "reply", "output")
_ABSTAINED_FIELDS = ("abstained", "abstention")
_CONTEXT_FIELDS = ("contexts", "context")
_TEXT_FIELDS = ("text", "page_content", "passage", "content")
_TIERS = ("tier_1", "tier_2", "tier_3", "NA")
_NEEDED = 'each line needs "response", and "id" or "question"'

_RETRIEVALS = {
    "basic_rag": "basic_rag",
    "direct": "direct",
    "hyde": "hyde",
    "hyde_rag": "hyde",
    "long_context": "long_context",
    "long_in_context": "long_context",
}
# Longest first, so that HYDE_RAG is not HYDE with a prompt named RAG_….
_NAMED = re.compile(
    r"(?:(?P<domain>.+?)_)??"
    rf"(?P<retrieval>{'|'.join(sorted(_RETRIEVALS, key=len, reverse=True))})"
    r"(?:_(?P<prompt>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_RUNS_FOLDER = re.compile(r"(?P<model>.+)[_-]runs", re.DOTALL)

DEFAULT_MODEL = "replay"


_KINDS = [kind for kind in CaseKind if kind is not CaseKind.LIVE]


@dataclass(frozen=True, slots=True)
class LoggedPassage:
    """One entry of a logged context: an id, a text, or both.

    Attributes:
        passage_id: as the log names it; None where it holds the text alone.
        text: None where the log names it only. Texts in a list of contexts may turn out
            to be ids of questions that are known.
    """

    passage_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class LoggedReply:
    """One line of a log.

    Attributes:
        where: file and line.
        question_id: None where the log gives the question alone.
        question: None where the log gives the id alone.
        expected_answer: as the log has it.
        context: what the model was given to read; () for nothing, None where the log
            does not say.
        response: None exactly where `failure` is set.
        failure: why there is no reply.
        citation: what the reply names as its source, as text.
        abstained: `yes` or `no` by whoever judged the log, None unjudged.
        factuality: `tier_1`, `tier_2`, `tier_3` or `NA`, None unjudged.
        kind: what the knowledge base held of the answer, None where the log does not say.
        model: of the line, of the file, or of its folder.
        retrieval: likewise; empty where unknown.
        prompt: likewise; empty where unknown.
        knowledge_base: likewise; empty where unknown.
        input_tokens: None where not logged.
        output_tokens: likewise.
    """

    where: str
    question_id: str | None
    question: str | None
    expected_answer: str | None
    context: tuple[LoggedPassage, ...] | None
    response: str | None
    failure: str | None = None
    citation: str | None = None
    abstained: str | None = None
    factuality: str | None = None
    kind: CaseKind | None = None
    model: str = DEFAULT_MODEL
    retrieval: str = ""
    prompt: str = ""
    knowledge_base: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayLog:
    """A log file.

    Attributes:
        path: of the file.
        model: by the file's folder (`<model>_runs`), else `replay`.
        retrieval: by the file's name `domain_retrieval_prompt`; empty where it does not say.
        prompt: likewise.
        knowledge_base: likewise.
        replies: at least one, in the order of the file.
    """

    path: Path
    model: str
    retrieval: str
    prompt: str
    knowledge_base: str
    replies: tuple[LoggedReply, ...]


def read_replay_log(path: str | os.PathLike[str]) -> ReplayLog:
    """Read a log of replies, one JSON object per line.

    A line needs `response` (or `reply`, `output`) and one of `id` (`question_id`,
    `identifier`) and `question` (`query`). All else is optional: `expected_answer`
    (`answer`), `context_ids` (null for none) or `contexts` (ids or texts), `citation`,
    the labels `abstained` (yes, no) and `factuality` (tier_1, tier_2, tier_3, NA),
    `kind` (left_out, in_kb, synthetic), `model`, `retrieval`, `prompt`,
    `knowledge_base`, `input_tokens`, `output_tokens`. A response of null, or a field
    `error`, is a call that failed.

    Args:
        path: named `domain_retrieval_prompt.jsonl` it says what its lines need not;
            retrievals are BASIC_RAG, HYDE_RAG, LONG_IN_CONTEXT and DIRECT, or the
            names used here. A folder `<model>_runs` names the model.

    Raises:
        InputError: no such file, a broken line, a field of the wrong kind, or no line at
            all; names file and line.
    """
    file = Path(path)
    named = _NAMED.fullmatch(file.name.removesuffix(file.suffix))
    parts = named.groupdict() if named else {}
    folder = _RUNS_FOLDER.fullmatch(file.absolute().parent.name)
    log = ReplayLog(
        path=file,
        model=clean_text(folder["model"]) if folder else DEFAULT_MODEL,
        retrieval=_RETRIEVALS[parts["retrieval"].lower()] if parts else "",
        prompt=clean_text(parts.get("prompt") or ""),
        knowledge_base=clean_text(parts.get("domain") or ""),
        replies=(),
    )
    replies = tuple(_reply(row, f"{path}:{line}", log) for line, row in read_jsonl(path))
    if not replies:
        raise InputError("the log is empty", where=os.fspath(path), hint=_NEEDED)
    return ReplayLog(log.path, log.model, log.retrieval, log.prompt, log.knowledge_base, replies)


def _reply(row: Mapping[str, Any], where: str, log: ReplayLog) -> LoggedReply:
    question_id = _identifier(row, where)
    question = _text(row, _QUESTION_FIELDS, where)
    if question_id is None and not (question or "").strip():
        raise InputError("the line names no question", where=where, hint=_NEEDED)
    response, failure = _response(row, where)
    retrieval = _text(row, ("retrieval",), where)
    retrieval = (
        log.retrieval if retrieval is None else _RETRIEVALS.get(retrieval.lower(), retrieval)
    )
    context = _context(row, where)
    if context is None and retrieval == "direct":
        context = ()
    return LoggedReply(
        where=where,
        question_id=question_id,
        question=question,
        expected_answer=_text(row, _ANSWER_FIELDS, where),
        context=context,
        response=response,
        failure=failure,
        citation=_citation(row.get("citation"), where),
        abstained=_abstained(row, where),
        factuality=_one_of(row, "factuality", _TIERS, where),
        kind=CaseKind(kind) if (kind := _one_of(row, "kind", _KINDS, where)) else None,
        model=_text(row, ("model",), where) or log.model,
        retrieval=retrieval,
        prompt=_first(_text(row, ("prompt",), where), log.prompt),
        knowledge_base=_first(_text(row, ("knowledge_base",), where), log.knowledge_base),
        input_tokens=_count(row, "input_tokens", where),
        output_tokens=_count(row, "output_tokens", where),
    )


def _first(found: str | None, otherwise: str) -> str:
    return otherwise if found is None else found


def _identifier(row: Mapping[str, Any], where: str) -> str | None:
    for name in _ID_FIELDS:
        found = row.get(name)
        if found is None:
            continue
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise _wrong(name, "text or a whole number", found, where)
        text = clean_text(str(found)).strip()
        if not text:
            raise InputError(f"field '{name}' is empty", where=where, hint=_NEEDED)
        return text
    return None


def _response(row: Mapping[str, Any], where: str) -> tuple[str | None, str | None]:
    """The reply, or else why there is none."""
    if not any(name in row for name in (*_RESPONSE_FIELDS, "error")):
        raise InputError("field 'response' is missing", where=where, hint=_NEEDED)
    error = row.get("error")
    if error is not None and error is not False and error != "":
        return None, clean_text(error) if isinstance(error, str) else "the logged call failed"
    response = _text(row, _RESPONSE_FIELDS, where)
    return response, None if response is not None else "the log holds no reply"


def _context(row: Mapping[str, Any], where: str) -> tuple[LoggedPassage, ...] | None:
    if "context_ids" in row:
        found = row["context_ids"]
        if found is None:
            return ()
        if not isinstance(found, list):
            raise _wrong("context_ids", "null or a list of ids", found, where)
        return tuple(LoggedPassage(passage_id=_context_id(item, where)) for item in found)
    for name in _CONTEXT_FIELDS:
        if name not in row:
            continue
        found = row[name]
        if found is None:
            return ()
        if isinstance(found, str):
            return (LoggedPassage(text=clean_text(found)),) if found.strip() else ()
        if not isinstance(found, list):
            raise _wrong(name, "null, a text or a list of texts or ids", found, where)
        return tuple(_passage(item, name, where) for item in found)
    return None


def _context_id(item: Any, where: str) -> str:
    if isinstance(item, bool) or not isinstance(item, str | int) or not str(item).strip():
        raise _wrong("context_ids", "null or a list of ids", item, where)
    return clean_text(str(item)).strip() or "\ufffd"


def _passage(item: Any, name: str, where: str) -> LoggedPassage:
    if isinstance(item, str):
        return LoggedPassage(text=clean_text(item))
    if isinstance(item, int) and not isinstance(item, bool):
        return LoggedPassage(passage_id=str(item))
    if isinstance(item, Mapping):
        text = _text(item, _TEXT_FIELDS, where)
        passage_id = _identifier(item, where)
        if text is not None or passage_id is not None:
            return LoggedPassage(passage_id, text)
    raise _wrong(name, "null, a text or a list of texts or ids", item, where)


def _citation(found: Any, where: str) -> str | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise _wrong("citation", "text or a whole number", found, where)
    return clean_text(str(found))


def _abstained(row: Mapping[str, Any], where: str) -> str | None:
    for name in _ABSTAINED_FIELDS:
        found = row.get(name)
        if isinstance(found, bool):
            return "yes" if found else "no"
        if found is not None:
            return _one_of(row, name, ("yes", "no"), where)
    return None


def _one_of(row: Mapping[str, Any], name: str, allowed: Sequence[str], where: str) -> str | None:
    found = row.get(name)
    if found is None:
        return None
    spelled = {one.casefold(): str(one) for one in allowed}
    if not isinstance(found, str) or found.strip().casefold() not in spelled:
        raise InputError(
            f"field '{name}' must be one of {', '.join(spelled.values())}",
            where=where,
            hint="fix the line, or leave the field out",
        )
    return spelled[found.strip().casefold()]


def _text(row: Mapping[str, Any], names: Sequence[str], where: str) -> str | None:
    """The first of the fields that is there; null counts as not there."""
    for name in names:
        found = row.get(name)
        if found is None:
            continue
        if not isinstance(found, str):
            raise _wrong(name, "text", found, where)
        return clean_text(found)
    return None


def _count(row: Mapping[str, Any], name: str, where: str) -> int | None:
    found = row.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise _wrong(name, "a whole number from 0", found, where)
    return found


def _wrong(name: str, wanted: str, found: Any, where: str) -> InputError:
    return InputError(
        f"field '{name}' must be {wanted}, found {type(found).__name__}",
        where=where,
        hint="fix the line or leave it out",
    )
