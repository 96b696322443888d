"""What a request says of a question and its passages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...guard.text import clean_text


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_clean)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Passage(_Given):
    """A passage with metadata; `title` or else `source` in it names the passage in replies."""

    text: Text
    metadata: dict[str, Any] = Field(default_factory=dict)

    @property
    def as_given(self) -> dict[str, Any]:
        """As a guard reads it."""
        return {"text": self.text, "metadata": self.metadata}


Passages = list[Text | Passage]


def as_given(passages: Passages) -> list[Any]:
    """The passages as a guard reads them."""
    return [one.as_given if isinstance(one, Passage) else one for one in passages]


class Question(_Given):
    """A question and what was retrieved for it, nearest first."""

    question: Text
    passages: Passages = Field(default_factory=list)


class QuestionBatch(_Given):
    """Several questions, each with its own passages."""

    requests: list[Question] = Field(min_length=1)


class ChatExtension(_Given):
    """The field `knowgate` of a chat request.

    Attributes:
        passages: retrieved by the client; without them the configured retriever is asked.
        question: what is judged, and asked of the retriever, for example a follow-up that the
            client has made a whole question; by default the last message of the user.
    """

    passages: Passages | None = None
    question: Text | None = None
