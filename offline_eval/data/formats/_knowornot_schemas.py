"""Schemas of KnowOrNot's documents: optional fields have defaults.

Field names are those of its files. What a document must have to be of use (texts of
questions and replies) is demanded.

Source of the format: the public repository govtech-responsibleai/KnowOrNot, version 0.1.1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..fields import Identifier, NamedText, Text


def _prompt(value: Any) -> Any:
    return {"content": value} if isinstance(value, str) else value


def _or_empty(value: Any) -> Any:
    return () if value is None else value


def _or_blank(value: Any) -> Any:
    return "" if value is None else value


def _tags(value: Any) -> Any:
    """Tags with the list of their texts; a text alone is a list of one."""
    if not isinstance(value, dict):
        return {} if value is None else value
    return {
        name: (texts,) if isinstance(texts, str) else _or_empty(texts)
        for name, texts in value.items()
    }


OptionalText = Annotated[Text, BeforeValidator(_or_blank)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_or_empty)]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class NamedPrompt(_Stored):
    """A prompt with its name; a text alone is one without a name."""

    identifier: OptionalText = ""
    content: OptionalText = ""


Prompt = Annotated[NamedPrompt, BeforeValidator(_prompt)]


class QuestionEntry(_Stored):
    """A question of the knowledge base with its answer.

    Attributes:
        identifier: empty where a context has no ids.
    """

    question: Text
    answer: OptionalText = ""
    identifier: NamedText = ""


class NumberedQuestion(QuestionEntry):
    """A question of a question document, where it must have an id."""

    identifier: Identifier


class AskedQuestion(_Stored):
    """A question that was put to a model.

    Attributes:
        expected_answer: empty for synthetic questions.
        context_questions: what stood in the prompt, None for nothing; a file may leave
            it out, which `model_fields_set` tells.
    """

    identifier: Identifier
    question: Text
    expected_answer: OptionalText = ""
    context_questions: tuple[QuestionEntry, ...] | None = None


class ExperimentQuestion(_Stored):
    """What a model was sent."""

    prompt_to_llm: OptionalText = ""
    source_context_qa: AskedQuestion


class ModelReply(_Stored):
    """What the model said.

    Attributes:
        citation: index of an entry of the context, or `no citation`.
    """

    response: Text
    citation: int | Text | None = None


class SavedReply(_Stored):
    """One reply with what was asked."""

    experiment_input: ExperimentQuestion
    llm_response: ModelReply


class ExperimentMetadata(_Stored):
    """How an experiment was made; the same in its input, output and evaluated document.

    Attributes:
        retrieval_type: DIRECT, LONG_IN_CONTEXT, BASIC_RAG, HYDE_RAG, or another tool's.
        creation_timestamp: ISO 8601, as it stands there; empty where unknown.
        client_enum: who sold the model.
    """

    experiment_type: Literal["removal", "synthetic"] = "removal"
    system_prompt: Prompt = NamedPrompt()
    input_path: OptionalText = ""
    output_path: OptionalText = ""
    retrieval_type: OptionalText = ""
    creation_timestamp: OptionalText = ""
    client_enum: OptionalText = ""
    ai_model_used: OptionalText = ""
    knowledge_base_identifier: OptionalText = ""


class EvaluationSpec(_Stored):
    """How replies were judged by one criterion."""

    evaluation_name: Identifier
    evaluator_client_enum: OptionalText = ""
    evaluator_model: OptionalText = ""
    evaluation_prompt: Prompt = NamedPrompt()
    tag_name: OptionalText = ""
    evaluation_outcomes_list: Texts = ()
    in_context: Texts = ()
    use_default_xml_prompting: bool = True
    additional_tags: Texts = ()


class Verdict(_Stored):
    """What one criterion came to for one reply.

    Attributes:
        evaluation_outcome: `NA` where a criterion did not apply.
        additional_tags_info: further tags of the judge's text, e.g. its reasoning.
    """

    evaluation_timestamp: OptionalText = ""
    evaluation_name: Identifier
    evaluation_outcome: OptionalText = ""
    additional_tags_info: Annotated[dict[Text, tuple[Text, ...]], BeforeValidator(_tags)] = {}


class EvaluatedReply(_Stored):
    """A reply with its verdicts; in an output document, without any."""

    llm_response: SavedReply
    evaluations: Annotated[tuple[Verdict, ...], BeforeValidator(_or_empty)] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_output(cls, value: Any) -> Any:
        bare = isinstance(value, dict) and "experiment_input" in value
        return {"llm_response": value} if bare else value


class QuestionDocument(_Stored):
    """A knowledge base as questions with answers."""

    knowledge_base_identifier: OptionalText = ""
    questions: tuple[NumberedQuestion, ...]


class InputDocument(_Stored):
    """What an experiment asks."""

    metadata: ExperimentMetadata
    questions: tuple[ExperimentQuestion, ...]


class ReplyDocument(_Stored):
    """What was replied, and in an evaluated document what judges said of it."""

    path_to_store: OptionalText = ""
    metadata: ExperimentMetadata = Field(
        validation_alias=AliasChoices("experiment_metadata", "metadata")
    )
    evaluation_metadata: Annotated[tuple[EvaluationSpec, ...], BeforeValidator(_or_empty)] = ()
    responses: tuple[EvaluatedReply, ...]


Document = QuestionDocument | InputDocument | ReplyDocument
