"""Agents with a scripted model that searches, and what there is to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool
from pydantic import Field

from knowgate.adapters.langchain import GuardMiddleware
from knowgate.guard import Guard
from tests.adapters.langchain.fakes import Setting, TalkingModel, retrieve

Speak = Callable[[list[BaseMessage], list[str]], AIMessage]


class ScriptedAgentModel(TalkingModel):
    """Says what `speak` makes of messages and names of tools, word by word when streamed."""

    speak: Any
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    said: list[AIMessage] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(names=[one.name for one in tools])

    def _said(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        said: AIMessage = self.speak(messages, options.get("names", []))
        self.seen.append(messages)
        self.said.append(said)
        return said


def call(name: str, number: int = 1, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, id=f"{name}-{number}")


def searching(messages: list[BaseMessage], names: list[str]) -> AIMessage:
    """Search once for each question if there is a tool for it, then answer from what is shown.

    Words of the question: `direct` answers at once, `twice` searches with two calls.
    """
    asked = next(m for m in reversed(messages) if isinstance(m, HumanMessage)).text
    if messages[-1].text == asked and "search" in names and "direct" not in asked:
        count = 2 if "twice" in asked else 1
        number = len(messages)
        calls = [call("search", 10 * number + i, query=asked) for i in range(count)]
        return AIMessage("", tool_calls=calls)
    shown = [str(m.text) for m in messages if isinstance(m, ToolMessage)]
    return AIMessage(f"from context: {' + '.join(shown)}" if shown else f"from memory: {asked}")


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search the pages."""
    found = retrieve(query)
    return "as the tool writes it: " + " ".join(one.page_content for one in found), found


def agent(
    setting: Setting | Guard,
    *,
    speak: Speak = searching,
    tools: Sequence[BaseTool] = (search,),
    others: Sequence[Any] = (),
    checkpointer: Any = None,
    response_format: Any = None,
    **options: Any,
) -> tuple[Any, ScriptedAgentModel]:
    """A guarded agent, and its model."""
    model = ScriptedAgentModel(speak=speak)
    guard = setting if isinstance(setting, Guard) else setting.guard
    guarded = GuardMiddleware(guard, ["search"], **{"replies": "Sorry.", **options})
    made = create_agent(
        model,
        tools=list(tools),
        middleware=[guarded, *others],
        checkpointer=checkpointer,
        response_format=response_format,
    )
    return made, model


def asking(question: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(question)]}


async def streamed(agent: Any, given: Any, asynchronous: bool) -> list[str]:
    """The texts of the model that the user sees as they come, piece by piece."""
    if asynchronous:
        chunks = [one async for one in agent.astream(given, stream_mode="messages")]
    else:
        chunks = list(agent.stream(given, stream_mode="messages"))
    return [str(one.text) for one, _ in chunks if isinstance(one, AIMessage) and one.text]


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]
