"""A guarded RAG chain in twenty lines: `python examples/rag.py`, offline and in a second."""

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from knowgate import Guard, GuardedRAG

PAGES = [Document("The library opens at nine."), Document("A lost reader card costs four euros.")]

prompt = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
llm = FakeListChatModel(responses=["It opens at nine."])  # any LangChain chat model
chain = GuardedRAG(
    guard=Guard.default(),  # not calibrated on your data; Guard.load("policy.json") once it is
    retriever=RunnableLambda(lambda question: PAGES),  # any LangChain retriever
    with_context=prompt | llm,
)
for question in ("When does the library open?", "Who painted the ceiling of the museum?"):
    result = chain.invoke(question)
    print(f"{question} [{result.decision.route}] {result.answer}")
