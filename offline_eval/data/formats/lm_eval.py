"""Read sample logs of the lm-evaluation-harness into a run of replies.

Files `samples_<task>_<time>.jsonl` have one object per document and filter:

    doc, doc_id, target            what was asked, and what is right
    arguments                      requests: prompt with settings, or prompt with a continuation
    resps, filtered_resps, filter  raw and filtered responses of those requests
    metrics, <metric>…             names of the metrics, and a value for each

Generation tasks answer with text. Multiple-choice tasks rate each continuation by its
log-likelihood: the likeliest is the reply. Logs of other requests hold no replies.

Source of the format: the documentation of the lm-evaluation-harness, versions 0.4.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from ....guard.errors import NO_JSON, InputError
from ....guard.files import AnyPath
from ....guard.read_models import read_models
from ....guard.text import clean_text
from ...run import Question
from ...run.questions import CaseKind
from ...run.replies import ReplyContext, ReplySystem
from ..bases import question_of
from ..fields import Filled, Text
from ..questions import QuestionRecord
from ._rows import OnWarning, ReplyRows, plain

LM_EVAL_JUDGE = "lm-eval"
_NAME = re.compile(
    r"samples_(?P<task>.+?)(?:_\d{4}-\d{2}-\d{2}T[\d.:-]+)?", re.DOTALL | re.IGNORECASE
)
_QUESTION_FIELDS = ("question", "query", "problem", "prompt", "input", "sentence")
# What the harness's pattern filters write where a reply does not match.
_NO_MATCH = "[invalid]"
_HINT = "name a samples_*.jsonl that lm-eval wrote with --log_samples"


def import_lm_eval(
    files: Sequence[AnyPath],
    out: AnyPath,
    *,
    model: str | None = None,
    on_warning: OnWarning | None = None,
) -> Path:
    """Make a run of replies from sample logs.

    A reply is the first filtered response, for multiple choice the likeliest choice;
    metrics become judgements of judge `lm-eval`, with the number as outcome. A task is
    a knowledge base, and its cases are answerable ones: `in_kb`.

    Args:
        files: `samples_*.jsonl`, of any tasks and models.
        out: run folder; done again with the same files, it changes nothing.
        model: its name; by default that of the folder, as the harness names it.
        on_warning: called with what was left out.

    Returns:
        The run folder.

    Raises:
        InputError: a file cannot be read, holds no replies, answers a document twice, or
            the folder holds something else.
    """
    rows, questions = ReplyRows(), dict[str, Question]()
    for path in files:
        _add(rows, questions, Path(path), model)
    if not rows.replies:
        what = "these logs hold no reply: their requests ask for no answer"
        hint = "name samples of a generation or multiple-choice task"
        raise InputError(what, where=os.fspath(files[0]) if files else "lm-eval", hint=hint)
    return rows.write(
        out,
        settings={"source": "lm-eval"},
        questions=list(questions.values()),
        bases=(),
        files=files,
        on_warning=on_warning,
    )


def _listed(value: Any) -> Any:
    """Objects `gen_args_<n>` of `arg_<n>` as lists, in the order of the file."""
    if not isinstance(value, dict):
        return value or ()
    return [list(one.values()) if isinstance(one, dict) else one for one in value.values()]


class _Request(NamedTuple):
    """One request.

    Attributes:
        prompt: all of it, examples included; of a chat, the last message of the user.
        choice: the text that was rated; None for a generation.
        response: the first text that came back; None for a rating, and for requests that
            ask for no answer.
        log_likelihood: of the choice, None for a generation.
    """

    prompt: str
    choice: str | None
    response: str | None
    log_likelihood: float | None


class Sample(BaseModel, extra="allow"):
    """One line of a log; metrics are further fields of it."""

    doc_id: Filled
    doc: Any = None
    target: Any = None
    arguments: Annotated[tuple[list[Any], ...], BeforeValidator(_listed)] = ()
    resps: Annotated[list[Any], BeforeValidator(lambda value: value or [])] = []
    filtered_resps: Any = None
    filter: Text = ""
    metric_names: list[str] | None = Field(None, validation_alias="metrics")

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.question.strip():
            raise ValueError("the line names no question")
        return self

    @cached_property
    def requests(self) -> list[_Request]:
        """The requests that are about its question.

        Choices that are rated without the question, for some metrics, are left out. Where
        prompts differ and the continuation does not, the prompts are the choices.
        """
        sent = [[*one, None, None][:2] for one in self.arguments]
        told = [*self.resps, *([None] * len(sent))]
        asked = [(_prompt(one), second, told[at]) for at, (one, second) in enumerate(sent)]
        found = [_request(one, *more) for one, *more in asked if one is not None]
        alike = len({one.choice for one in found}) == 1
        if len(found) > 1 and alike and found[0].choice is not None:
            return [one._replace(choice=one.prompt) for one in found]
        return [one for one in found if one.prompt == found[0].prompt]

    @property
    def question(self) -> str:
        """The document's own question; else the whole prompt."""
        fields = self.doc if isinstance(self.doc, dict) else {}
        texts = (fields.get(name) for name in _QUESTION_FIELDS)
        found = (clean_text(one) for one in texts if isinstance(one, str) and one.strip())
        return next(found, self.requests[0].prompt if self.requests else "")

    @property
    def expected(self) -> str:
        """The right answer as text, empty where unknown; a number is that of a choice."""
        target = next(iter(self.target), None) if isinstance(self.target, list) else self.target
        if isinstance(target, bool) or not isinstance(target, str | int):
            return ""
        choices = [one.choice for one in self.requests if one.choice is not None]
        text = clean_text(str(target)).strip()
        if choices and re.fullmatch(r"\d{1,6}", text, re.ASCII) and text not in choices:
            return choices[int(text)].strip() if int(text) < len(choices) else ""
        return text

    @property
    def response(self) -> str | None:
        """The reply; None where the request was no question with a reply."""
        rated = [one for one in self.requests if one.log_likelihood is not None]
        first = next(iter(self.requests), None)
        if first is None:
            return None
        if first.choice is not None:
            # The first of equals, as the harness's accuracy has it.
            likeliest = max(rated, key=lambda one: one.log_likelihood or 0.0, default=first)
            return (likeliest.choice or "").strip() if len(rated) > 1 else None
        if first.response is None:
            return None
        found = self.filtered_resps
        while isinstance(found, list) and found:
            found = found[0]
        filtered = isinstance(found, str) and found != _NO_MATCH
        return clean_text(found) if filtered else first.response

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers by name; what is no finite number is left out."""
        further = self.model_extra or {}
        names = further if self.metric_names is None else self.metric_names
        found = {clean_text(name): further.get(name) for name in names if name.strip()}
        numbers = {name: one for name, one in found.items() if isinstance(one, int | float)}
        return {name: float(one) for name, one in numbers.items() if abs(one) < 1e300}


def _add(rows: ReplyRows, questions: dict[str, Question], path: Path, model: str | None) -> None:
    """Add the replies of a log, whose name tells the task and whose folder the model."""
    samples = read_samples(path)
    named = _NAME.fullmatch(path.name.removesuffix(path.suffix))
    task = clean_text(named["task"] if named else path.stem)
    name = model or _model_of(path) or LM_EVAL_JUDGE
    system = ReplySystem(system_id=name, model=name, replayed=True)
    # By document, the filter that came first: its responses are the replies.
    replies: dict[str, tuple[str, str]] = {}
    for where, sample in samples:
        if sample.response is None:
            detail = "the request asks for no answer, so that there is no reply"
            rows.warn(where, detail)
            continue
        by, reply_id = replies.get(sample.doc_id, (sample.filter, ""))
        if by == sample.filter:
            question, told = _question(questions, task, sample, where), sample.response
            given = {"context": ReplyContext(), "response": told}
            reply_id = rows.reply(where, system, question, CaseKind.IN_KB, **given).reply_id
            replies[sample.doc_id] = by, reply_id
        for metric, value in sample.metrics.items():
            rows.judgement(
                where,
                reply_id,
                # The harness's own way to tell the filters of a metric apart.
                metric if by == sample.filter else f"{metric},{sample.filter}",
                LM_EVAL_JUDGE,
                outcome=f"{value:.12g}",
                probability=value if 0.0 <= value <= 1.0 else None,
            )


def _question(questions: dict[str, Question], task: str, sample: Sample, where: str) -> Question:
    """The question of a document, which is the same for all models."""
    record = QuestionRecord(f"{task}/{sample.doc_id}", sample.question, sample.expected)
    question = question_of(task, record, "", "")
    known = questions.setdefault(question.question_id, question)
    if plain(known.question) != plain(question.question):
        what = f"document {sample.doc_id[:40]!r} asks something else than in another log"
        hint = "import logs of different versions of a task into different folders"
        raise InputError(what, where=where, hint=hint)
    return known


def read_samples(path: AnyPath) -> list[tuple[str, Sample]]:
    """Read a sample log.

    Returns:
        At least one sample with its file and line, in the order of the file.

    Raises:
        InputError: no such file, a broken line, a line that lacks what makes it a
            sample, or none at all; names file and line.
    """
    samples = list(read_models(path, Sample, hint=_HINT))
    if not samples:
        raise InputError("the log is empty", where=os.fspath(path), hint=_HINT)
    return samples


def _model_of(path: Path) -> str:
    """The model by the folder; empty where that does not tell."""
    folder = path.absolute().parent
    # The harness writes results beside samples, in a folder named after the model.
    named = "__" in folder.name or any(folder.glob("results*.json"))
    return clean_text(folder.name.replace("__", "/")) if named else ""


def _prompt(found: Any) -> str | None:
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, str):
        return None
    messages: Any = ()
    if found.startswith("[{"):
        with contextlib.suppress(*NO_JSON):
            messages = json.loads(found)
    for message in reversed(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and message.get("role") == "user":
            return clean_text(content)
    return clean_text(found)


def _request(prompt: str, second: Any, response: Any) -> _Request:
    # Repeats of one request: the first counts.
    first = response[0] if isinstance(response, list) and response else response
    if isinstance(second, str):
        return _Request(prompt, clean_text(second), None, _number(first))
    asks = isinstance(second, Mapping) or _number([first]) is None
    text = clean_text(first) if asks and isinstance(first, str) else None
    return _Request(prompt, None, text, None)


def _number(found: Any) -> float | None:
    """The first of `[log-likelihood, is greedy]`; some versions write numbers as text."""
    value = found[0] if isinstance(found, list) and found else None
    with contextlib.suppress(ValueError, OverflowError):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return None if math.isnan(number := float(value)) else number
    return None
