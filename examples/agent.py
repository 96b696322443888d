"""A guarded LangChain agent: `python examples/agent.py`, offline. Needs `knowgate[agents]`."""

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from knowgate import Guard
from knowgate.adapters.langchain import GuardMiddleware

PAGES = [Document("The library opens at nine."), Document("A lost reader card costs four euros.")]


class ScriptedModel(GenericFakeChatModel):
    """Searches, then answers; put any chat model that calls tools in its place."""

    def bind_tools(self, tools, **_):  # type: ignore[no-untyped-def]
        """Take any tools: the script decides what is called."""
        return self


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search the pages of the library."""
    return "", PAGES


def answer(guard: Guard, question: str) -> str:
    """Ask an agent whose search is guarded."""
    call = {"name": "search", "args": {"query": question}, "id": "1"}
    script = [AIMessage("", tool_calls=[call]), AIMessage("It opens at nine.")]
    agent = create_agent(
        ScriptedModel(messages=iter(script)),
        tools=[search],
        middleware=[GuardMiddleware(guard, tools=[search])],
    )
    state = agent.invoke({"messages": [HumanMessage(question)]})
    return f"{question} [{state['guard_decision']['route']}] {state['messages'][-1].text}"


if __name__ == "__main__":
    default = Guard.default()
    print(answer(default, "When does the library open?"))
    print(answer(default, "Who painted the ceiling of the museum?"))
