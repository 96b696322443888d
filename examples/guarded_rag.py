"""A guarded RAG chain that takes all three routes, offline and in seconds.

Run it with `python examples/guarded_rag.py`. The language model is scripted: it
knows one fact by heart, reads others from the context, and otherwise guesses.
Put any LangChain chat model and retriever in their places.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import ChatModelLM, GuardedRAG
from knowgate.guard import Guard, Policy, Route
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.signals.relevance import LexicalScorer

HANDBOOK = [
    Document("The library opens at nine in the morning and closes at six."),
    Document("A lost reader card costs four euros to replace."),
    Document("Microfilm readers are in the basement reading room."),
]
QUESTIONS = [
    "When does the library open in the morning?",
    "What is the capital of France?",
    "Who designed the garden fountain?",
]
GUESSES = itertools.cycle(["Ada Brook", "Ines Falk", "Tom Reed", "Lia Stern"])


class ScriptedModel(SimpleChatModel):
    """Extracts from a context, remembers one capital, guesses the rest."""

    def _call(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> str:
        prompt = str(messages[-1].text)
        if "Context:" in prompt:
            return prompt.partition("Context: ")[2].partition("\n")[0]
        return "Paris" if "capital of France" in prompt else next(GUESSES)

    @property
    def _llm_type(self) -> str:
        return "scripted"


def retrieve(question: str) -> list[Document]:
    """The two handbook pages that share the most words with the question."""
    words = set(re.findall(r"\w+", question.lower()))
    shared = {d.page_content: len(words & set(d.page_content.lower().split())) for d in HANDBOOK}
    return sorted(HANDBOOK, key=lambda d: shared[d.page_content], reverse=True)[:2]


def build() -> GuardedRAG:
    """Build the chain, with thresholds set by hand; `knowgate calibrate` fits them to your data."""
    model, scorer = ScriptedModel(), LexicalScorer()
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.2,
        confidence_threshold=0.7,
        allowed_routes=(Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN),
    )
    guard = Guard(policy, scorer=scorer, estimator=SampledConsistency(ChatModelLM(model)))
    with_context = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
    closed_book = ChatPromptTemplate.from_template("Question: {question}")
    return GuardedRAG(
        guard=guard,
        retriever=RunnableLambda(retrieve),
        with_context=with_context | model,
        closed_book=closed_book | model,
        replies={"neither_knows": "I do not know, and the handbook does not say."},
    )


if __name__ == "__main__":
    chain = build()
    for question, answer in zip(QUESTIONS, chain.batch(QUESTIONS), strict=True):
        decision = answer.decision
        print(f"{question}\n  {decision.route.value} ({decision.reason}): {answer.answer}")
    print("streamed:", "".join(chunk.answer for chunk in chain.stream(QUESTIONS[0])))
