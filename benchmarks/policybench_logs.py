"""Logged replies of `policybench.py`: question documents, run files, and what each model saw.

A KnowOrNot system puts every question of its context into the prompt together with its answer
("Question 0: … Answer 0: …"), so that a context id names a question and stands for both texts.
The question that is asked is itself left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgate.guard import InputError
from knowgate.guard.files import read_jsonl
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord

TIERS = {"tier_1": 1, "tier_2": 2, "tier_3": 3, "NA": None, None: None}
UNSAFE_TIER = 3


@dataclass(frozen=True)
class Document:
    """A question document with the knowledge base that its answers make up.

    Attributes:
        name: of the file, without its ending.
        questions: by id, in the order of the file.
        knowledge_base: one passage per distinct text.
    """

    name: str
    questions: Mapping[str, QuestionRecord]
    knowledge_base: KnowledgeBase


@dataclass(frozen=True)
class Reply:
    """One logged reply to a question whose own passage was left out.

    Attributes:
        question_id: of the question.
        context: ids of the questions that stood in the prompt, () for none.
        abstained: whether the model did, by the logged judge.
        tier: 1 right, 2 with minor deviations, 3 wrong; None where nobody judged it.
    """

    question_id: str
    context: tuple[str, ...]
    abstained: bool
    tier: int | None

    @property
    def unsafe(self) -> bool:
        """A wrong answer that was given."""
        return not self.abstained and self.tier == UNSAFE_TIER

    @property
    def right(self) -> bool:
        """An answer that was given and is right, minor deviations allowed."""
        return not self.abstained and self.tier in (1, 2)


@dataclass(frozen=True)
class Run:
    """The replies of one run file that can be used.

    Attributes:
        name: of the file, without its ending; `domain_retrieval_prompt`.
        replies: one per question.
        strangers: replies of the file whose question or context is not in the document.
        unjudged: replies of the file without a verdict.
    """

    name: str
    replies: tuple[Reply, ...]
    strangers: int = 0
    unjudged: int = 0

    @property
    def has_context(self) -> bool:
        """Whether the model was given any passage."""
        return any(reply.context for reply in self.replies)


def read_document(path: Path, kind: PassageKind) -> Document:
    """A question document, each question's passage made of its texts.

    Raises:
        InputError: it cannot be read, or has fewer than two questions or passages.
    """
    found = QuestionRecord.read(path)
    base = KnowledgeBase.of(found, kind, where=str(path))
    return Document(path.stem, {one.question_id: one for one in found}, base)


def read_runs(folder: Path, document: Document) -> tuple[list[Run], list[str]]:
    """The runs of a folder that ask the document's questions, and names of all other files.

    A file belongs to the document if any of its replies has the id and the text of one of the
    document's questions.

    Raises:
        InputError: no such folder, a broken line, or no run for the document.
    """
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), hint="name a folder with run files")
    runs, others = [], []
    for path in sorted(folder.glob("*.jsonl")):
        run = read_run(path, document)
        if run.replies:
            runs.append(run)
        else:
            others.append(path.stem)
    if not runs:
        raise InputError(
            f"no run asks the questions of {document.name}",
            where=str(folder),
            hint="it needs files domain_retrieval_prompt.jsonl of that domain",
        )
    return runs, others


def read_run(path: Path, document: Document) -> Run:
    """One run file, reduced to the replies that the document can explain.

    Raises:
        InputError: a broken line, a question twice, or a question in its own context.
    """
    replies: dict[str, Reply] = {}
    strangers = unjudged = 0
    for line, row in read_jsonl(path):
        where = f"{path}:{line}"
        reply, question = _reply(row, where)
        known = document.questions.get(reply.question_id)
        if (
            known is None
            or _plain(known.question) != _plain(question)
            or any(one not in document.questions for one in reply.context)
        ):
            strangers += 1
        elif not reply.abstained and reply.tier is None:
            unjudged += 1
        elif reply.question_id in replies:
            raise InputError(
                f"a second reply to question {reply.question_id!r}",
                where=where,
                hint="one run holds one reply per question",
            )
        else:
            replies[reply.question_id] = reply
    return Run(path.stem, tuple(replies.values()), strangers, unjudged)


def _reply(row: Mapping[str, Any], where: str) -> tuple[Reply, str]:
    name, question, context = (row.get(key) for key in ("id", "question", "context_ids"))
    listed = [] if context is None else context
    demands = {
        "id must be a text": isinstance(name, str) and bool(name.strip()),
        "question must be a text": isinstance(question, str),
        "context_ids must be null or a list of texts": isinstance(listed, list)
        and all(isinstance(one, str) for one in listed),
        'abstained must be "yes" or "no"': row.get("abstained") in ("yes", "no"),
        f"factuality must be one of {', '.join(filter(None, TIERS))}": isinstance(
            tier := row.get("factuality"), str | None
        )
        and tier in TIERS,
    }
    for demand, met in demands.items():
        if not met:
            raise InputError(demand, where=where, hint="fix the line or leave it out")
    if name in listed:
        raise InputError(
            f"question {name!r} stands in its own context: it was not left out",
            where=where,
            hint="use runs made under leave-one-out",
        )
    reply = Reply(str(name), tuple(listed), row["abstained"] == "yes", TIERS[row.get("factuality")])
    return reply, str(question)


def _plain(text: str) -> str:
    return " ".join(text.split())
