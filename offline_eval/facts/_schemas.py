"""What the model is asked to return."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ...guard import clean_text

_Text = Annotated[str, AfterValidator(clean_text)]


class FactReply(BaseModel):
    """One fact, with where it comes from."""

    model_config = ConfigDict(extra="ignore")

    fact: _Text = Field(description="one fact as a whole sentence, understood by itself")
    sentences: list[int] = Field(description="numbers of the sentences that it comes from")


class FactsReply(BaseModel):
    """All facts in the numbered sentences."""

    model_config = ConfigDict(extra="ignore")

    facts: list[FactReply] = Field(description="empty if there is none")


class QuestionReply(BaseModel):
    """A question with its answer."""

    model_config = ConfigDict(extra="ignore")

    question: _Text = Field(description="understood by somebody who has never seen the document")
    answer: _Text = Field(description="short and complete; does not stand in the question")
