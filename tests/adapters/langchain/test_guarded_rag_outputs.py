"""What the model returns stays what it is, through every way to call, parsers and checkpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, message_to_dict
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import BaseModel

from knowgate.adapters.langchain import GuardedAnswer
from knowgate.guard import Decision, Reason, Route
from knowgate.guard.contracts import Answerability, Premise, View
from tests.adapters.langchain.fakes import CONTEXT_PROMPT, WAYS, Setting, TalkingModel

DECISION = Decision(
    route=Route.FOLLOW_CONTEXT,
    reason=Reason.SUFFICIENT_CONTEXT,
    kept=(0,),
    scores=(0.9, None),
    views=(View("nine", (0,), True),),
    answerability=Answerability(Premise.ANSWERABLE, probability=0.5),
    timings={"total": 0.1},
)


class City(BaseModel):
    """A structured output."""

    name: str
    people: int


PARIS = City(name="Paris", people=2)
CALL = {"name": "look_up", "args": {"city": "Paris"}, "id": "call-1", "type": "tool_call"}
USAGE = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}


def says(output: Any) -> Runnable[Any, Any]:
    return RunnableLambda(lambda given: output)


# -- every way to call ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (PARIS, '{"name":"Paris","people":2}'),
        ({"name": "Paris"}, '{"name":"Paris"}'),
        (["Paris", "Lyon"], '["Paris","Lyon"]'),
        ("Paris", "Paris"),
        (AIMessage("Paris", usage_metadata=USAGE, tool_calls=[CALL]), "Paris"),
        (AIMessage("", tool_calls=[CALL]), ""),
        (AIMessage([{"type": "reasoning", "reasoning": "Hm"}, {"type": "text", "text": "P"}]), "P"),
        (None, ""),
    ],
    ids=["pydantic", "dict", "list", "text", "message", "tool call", "blocks", "none"],
)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_output_is_passed_through_unchanged(way: Any, output: Any, text: str) -> None:
    [answer] = await way(Setting(with_context=says(output)).chain, ("grounded",))

    assert answer.output == output
    assert type(answer.output) is type(output)
    assert answer.answer == text


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_usage_and_tool_calls_of_a_chat_model_arrive(way: Any) -> None:
    model = TalkingModel(
        speak=lambda prompt: AIMessage("One two", usage_metadata=USAGE, tool_calls=[CALL])
    )
    [answer] = await way(Setting(with_context=CONTEXT_PROMPT | model).chain, ("grounded",))

    assert isinstance(answer.output, AIMessage)
    assert (answer.output.usage_metadata, answer.output.tool_calls) == (USAGE, [CALL])
    assert answer.answer == answer.output.text == "One two"


def test_partial_objects_stream_as_they_grow() -> None:
    def pieces(given: Any) -> Iterator[str]:
        yield from ('{"name": "Pa', 'ris", "people"', ": 2}")

    chain = Setting(with_context=RunnableLambda(pieces) | JsonOutputParser()).chain
    chunks = list(chain.stream("grounded"))

    outputs = [chunk.output for chunk in chunks if chunk.output is not None]
    assert outputs[-1] == reduce(add, chunks).output == {"name": "Paris", "people": 2}
    assert len(outputs) > 1
    assert reduce(add, chunks).answer == '{"name":"Paris","people":2}'


@pytest.mark.filterwarnings("ignore:This API is in beta")
async def test_a_chain_is_a_tool_that_takes_a_question() -> None:
    tool = Setting().chain.as_tool(name="ask_help", description="Answers from the help pages.")
    call = {"type": "tool_call", "name": "ask_help", "id": "1", "args": {"question": "grounded"}}

    assert list(tool.args) == ["question"]
    assert tool.invoke({"question": "grounded"}).decision.route is Route.FOLLOW_CONTEXT
    assert tool.invoke(call).content == "from context: grounded"
    assert (await tool.ainvoke(call)).content == "from context: grounded"


def test_an_answer_can_stand_in_a_history_of_messages() -> None:
    answer = Setting().chain.invoke("grounded")

    assert isinstance(answer, AIMessage)
    assert message_to_dict(answer)["type"] == "ai"
    assert [m.text for m in (HumanMessage("Hi"), answer)] == ["Hi", "from context: grounded"]


# -- JSON and checkpoints -------------------------------------------------------------------


ANSWERS = {
    "text": GuardedAnswer("Nine.", DECISION, [Document("At nine.", metadata={"p": 1})], output="N"),
    "message": GuardedAnswer(
        "Nine.", DECISION, output=AIMessage("Nine.", usage_metadata=USAGE, tool_calls=[CALL])
    ),
    "chunk": GuardedAnswer("Nine.", DECISION, output=AIMessageChunk(content="Nine.")),
    "dict": GuardedAnswer("{}", DECISION, output={"type": "ai", "content": "mine"}),
    "other passages": GuardedAnswer("Nine.", DECISION, ["At nine.", {"text": "At nine."}]),
    "abstention": GuardedAnswer("No.", Decision(route=Route.ABSTAIN, reason="mine")),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_survives_json(answer: GuardedAnswer) -> None:
    text = answer.model_dump_json()

    assert GuardedAnswer.model_validate_json(text) == answer
    assert GuardedAnswer.model_validate(answer.model_dump()) == answer
    assert set(json.loads(text)) == {
        "answer", "decision", "documents", "id", "output", "reply_abstained", "standalone_question",
        "support", "supported",
    }  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_survives_a_checkpoint_without_a_warning(
    answer: GuardedAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    jsonplus = pytest.importorskip("langgraph.checkpoint.serde.jsonplus")
    serializer = jsonplus.JsonPlusSerializer(allowed_msgpack_modules=[GuardedAnswer, Decision])

    with caplog.at_level(logging.WARNING):
        stored = serializer.dumps_typed({"answer": answer, "decision": answer.decision})
        restored = serializer.loads_typed(stored)

    assert caplog.text == ""
    assert restored == {"answer": answer, "decision": answer.decision}
    assert type(restored["answer"].output) is type(answer.output)
    assert type(restored["decision"]) is Decision
