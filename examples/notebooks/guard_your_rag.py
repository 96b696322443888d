# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Guard your RAG
#
# A guard decides, before anything is generated, whether the retrieved passages suffice to answer
# a question. Everything here runs offline. Put your own retriever and model in the places marked
# *yours*.

# %%
import pandas as pd
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate import Guard, GuardedRAG

# %% [markdown]
# ## A chain
#
# The retriever is *yours*: any retriever of LangChain, or any runnable from a question to
# documents. This one returns all pages. The model is *yours*, too; this one quotes the first
# passage that the guard kept.

# %%
pages = [
    Document("The library opens at nine. On Saturdays it opens at ten."),
    Document("A lost reader card costs four euros to replace."),
    Document("Newspapers may be read in the hall, and may not be taken home."),
]
guard = Guard.default()
chain = GuardedRAG(
    guard=guard,
    retriever=RunnableLambda(lambda question: pages),
    with_context=RunnableLambda(lambda given: given["documents"][0].page_content),
)

# %% [markdown]
# ## Ask
#
# The first two questions are answered by the pages. The others are near misses: the pages speak
# of the same things, and do not answer.

# %%
questions = [
    "When does the library open?",
    "What does it cost to replace a lost card?",
    "Who designed the hall of the library?",
    "How many newspapers does the library have?",
]
answers = chain.batch(questions)
answers[0].decision

# %% [markdown]
# A decision says which route was taken and why, and how relevant the passages are together.
# `follow_context` answers from the passages; `abstain` gives the guard's own reply.

# %%
table = pd.DataFrame(
    {
        "question": questions,
        "route": [str(one.decision.route) for one in answers],
        "reason": [str(one.decision.reason) for one in answers],
        "relevance": [one.decision.relevance for one in answers],
        "answer": [one.answer for one in answers],
    }
)
table

# %% [markdown]
# ## Without a chain
#
# The guard also decides on texts alone, wherever they come from. Nothing retrieved is an
# abstention.

# %%
guard.decide("When does the library open?", [])

# %% [markdown]
# The threshold of `Guard.default()` was not calibrated on your data, and the guard says so. The
# next notebook, `calibrate_and_read_the_report`, fits it to a knowledge base, with a guarantee.

# %%
guard.policy.note
