"""The guard as a node of a LangGraph graph: `python examples/graph.py`.

Needs `knowgate[agents]`.
"""

from __future__ import annotations

from typing import Any, TypedDict

from langchain_core.documents import Document
from langgraph.graph import END, START, StateGraph

from knowgate import Guard
from knowgate.adapters.langchain import guard_node

PAGES = [Document("The library opens at nine."), Document("A lost reader card costs four euros.")]


class State(TypedDict, total=False):
    """What the nodes read and write; the guard writes all but question and answer."""

    question: str
    documents: list[Document]
    route: str
    reply: str | None
    decision: dict[str, Any]
    answer: str


def generate(state: State) -> State:
    """Answer from the documents that the guard kept; put your model here."""
    return {"answer": state["documents"][0].page_content}


graph = StateGraph(State)
graph.add_node("retrieve", lambda state: {"documents": PAGES})
graph.add_node("guard", guard_node(Guard.default()))
graph.add_node("follow_context", generate)
graph.add_node("abstain", lambda state: {"answer": state["reply"]})
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "guard")
graph.add_conditional_edges("guard", lambda state: state["route"], ["follow_context", "abstain"])
graph.add_edge("follow_context", END)
graph.add_edge("abstain", END)
app = graph.compile()

if __name__ == "__main__":
    for question in ("When does the library open?", "Who painted the ceiling of the museum?"):
        found = app.invoke({"question": question})
        print(f"{question} [{found['route']}] {found['answer']}")
