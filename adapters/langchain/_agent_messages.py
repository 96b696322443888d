"""What the messages of an agent say of its searches: which were made, and what they found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ...guard.decision import Decision, Reason
from ._answer import document_again
from ._documents import shown_text
from ._retrieval_filter import kept_documents

# Held by the artifact of a message in place of a search that failed.
_FAILURES = (
    Reason.RETRIEVAL_FAILED.value,
    Reason.INVALID_PASSAGES.value,
    Reason.INPUT_TOO_LARGE.value,
)
_NOTHING = "No passage bears on the question."


@dataclass(frozen=True, slots=True)
class Turn:
    """The messages since the user's last one.

    Attributes:
        question_id: id of the user's message; None without one.
        question: its text.
        results: of the searches, in order.
        steps: how many model calls led to a search that has ended.
        failure: why a search failed; None where none did.
    """

    question_id: str | None
    question: str
    results: tuple[ToolMessage, ...]
    steps: int
    failure: Reason | None

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], searches: Collection[str]) -> Turn:
        """The last turn of `messages`.

        Args:
            messages: the whole history.
            searches: names of the tools that retrieve.
        """
        start = next(
            (i for i in reversed(range(len(messages))) if isinstance(messages[i], HumanMessage)),
            None,
        )
        asked = None if start is None else messages[start]
        since = messages[0 if start is None else start :]
        ended = [m for m in since if isinstance(m, ToolMessage) and m.name in searches]
        results = tuple(message for message in ended if message.status != "error")
        failures = [m for m in ended if m.status == "error" and m.artifact in _FAILURES]
        finished = {message.tool_call_id for message in (*results, *failures)}
        return cls(
            asked.id if asked is not None else None,
            str(asked.text) if asked is not None else "",
            results,
            sum(bool(finished & _ids(m, searches)) for m in since if isinstance(m, AIMessage)),
            Reason(failures[0].artifact) if failures else None,
        )

    @property
    def documents(self) -> list[Document]:
        """What all searches found, in order."""
        return [document for message in self.results for document in found_in(message)]

    def showing_all(self) -> list[ToolMessage]:
        """The results with the texts of everything that was found."""
        return [_showing(message, found_in(message)) for message in self.results]

    def showing_kept(self, decision: Decision) -> list[ToolMessage]:
        """The results with those documents only that belong into the prompt after `decision`."""
        kept = dict(zip(decision.kept, kept_documents(decision, self.documents), strict=False))
        shown, start = [], 0
        for message in self.results:
            end = start + len(found_in(message))
            shown.append(_showing(message, [kept[i] for i in range(start, end) if i in kept]))
            start = end
        return shown


def found_in(result: ToolMessage) -> list[Document]:
    """The documents of a search: those in its artifact, or else its text as one document."""
    if isinstance(result.artifact, list | tuple):
        # Checkpointers restore the documents in a message as mappings.
        found = [document_again(one) for one in result.artifact]
        if all(isinstance(one, Document) for one in found):
            return found
    return [Document(str(result.text))]


def _showing(result: ToolMessage, documents: list[Document]) -> ToolMessage:
    text = "\n\n".join(map(shown_text, documents)) or _NOTHING
    return result.model_copy(update={"content": text, "artifact": documents})


def replaced(messages: Sequence[Any], others: Sequence[BaseMessage]) -> list[Any]:
    """The messages, with those of `others` in place of the ones with the same ids."""
    by_id = {message.id: message for message in others}
    return [by_id.get(message.id, message) for message in messages]


def without_searches(messages: Sequence[Any], searches: Collection[str]) -> list[Any]:
    """The messages without any search: neither calls nor results are left.

    A message of the model that did nothing but search is left out with its text, which a
    provider might take for the beginning of an answer.
    """
    left: list[Any] = []
    dropped: set[str | None] = set()
    for message in messages:
        if isinstance(message, AIMessage) and (ids := _ids(message, searches)):
            dropped |= ids
            if len(ids) < len(message.tool_calls):
                left.append(_without_calls(message, ids))
        elif not (isinstance(message, ToolMessage) and message.tool_call_id in dropped):
            left.append(message)
    return left


def without_text(message: Any) -> Any:
    """A message of the model with its calls of tools only; other messages as they are."""
    if not isinstance(message, AIMessage):
        return message
    content: Any = ""
    if isinstance(message.content, list):
        blocks = [block for block in message.content if isinstance(block, dict)]
        content = [block for block in blocks if block.get("type") != "text"]
    return message.model_copy(update={"content": content})


def _ids(message: AIMessage, searches: Collection[str]) -> set[str | None]:
    return {call["id"] for call in message.tool_calls if call["name"] in searches}


def _without_calls(message: AIMessage, ids: Collection[str | None]) -> AIMessage:
    """A copy without these calls, wherever a provider repeats them."""
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not _is_one_of(block, ids)]
    extra = dict(message.additional_kwargs)
    if "tool_calls" in extra:
        extra["tool_calls"] = [c for c in extra["tool_calls"] if not _is_one_of(c, ids)]
    calls = [call for call in message.tool_calls if call["id"] not in ids]
    return message.model_copy(
        update={"content": content, "additional_kwargs": extra, "tool_calls": calls}
    )


def _is_one_of(block: object, ids: Collection[str | None]) -> bool:
    return isinstance(block, Mapping) and (block.get("call_id") or block.get("id")) in ids
