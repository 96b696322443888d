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
# # Calibrate and read the report
#
# Each question of a knowledge base is asked twice: with its article in place, and with that
# article left out. A question that passes although its article was left out is a *leak*.
# Calibration chooses a threshold that bounds the leak.

# %%
import json
from collections import Counter

import pandas as pd
from langchain_core.documents import Document

from knowgate import Guard
from knowgate.offline_eval.policies import calibrate_chain, write_calibrated
from knowgate.offline_eval.suites import read_suite_run, write_report
from knowgate.offline_eval.testbed import sample_knowledge_base_path

# %% [markdown]
# ## Questions
#
# The bundled sample: 178 questions about a fictional city, each with the article that answers it.

# %%
path = sample_knowledge_base_path()
questions = pd.read_json(path, lines=True)
questions[["question", "answer", "source"]].head()

# %% [markdown]
# ## The retriever that is served
#
# The promise holds for one retriever only, so calibrate on the one that you serve. This one
# counts shared words, rare words more than common ones.

# %%
articles = {row["source"]: row["passage"] for row in map(json.loads, path.open(encoding="utf-8"))}
words = {source: set(text.lower().split()) for source, text in articles.items()}
spread = Counter(word for found in words.values() for word in found)


def search(question: str, k: int = 4) -> list[Document]:
    asked = set(question.lower().rstrip("?").split())
    shared = {s: sum(1 / spread[word] for word in asked & found) for s, found in words.items()}
    best = sorted(shared, key=lambda source: -shared[source])[:k]
    return [Document(articles[source], metadata={"source": source}) for source in best]


# %% [markdown]
# ## Measure and calibrate
#
# At most 20 % of the questions whose article is missing may pass, with confidence 90 %. The
# scorer `lexical` needs no model and is the weakest one; leave the setting out for the default
# scorer.

# %%
found = calibrate_chain(
    search, path, risk=0.2, out="run", settings={"scorer": "lexical", "limit": 90}
)
found.policy.guarantee

# %% [markdown]
# `found.problems` says what speaks against serving it, and then no policy is written: this scorer
# abstains from too much. Here it is written all the same, to read the report.

# %%
write_calibrated(found, "run/policy.json")
found.problems

# %% [markdown]
# Had no threshold kept the promise, `found.policy` would abstain from everything and say so.
#
# ## What was measured
#
# One line per case. `raw_relevance` of both kinds of cases overlaps: this is what the threshold
# has to live with.

# %%
rows = read_suite_run("run").to_pandas()
rows.head()

# %%
rows.groupby("kind")["raw_relevance"].describe().round(3)

# %%
scores = rows.pivot_table(index="question_id", columns="kind", values="raw_relevance")
scores.plot.hist(bins=20, alpha=0.6, title="Raw relevance, with the article and without it")

# %% [markdown]
# ## The report
#
# `report.html` has the rates, the scores, and a slider for other thresholds. The same
# numbers as a table, by the names that gates (`--fail-if`) take:
#
# - `left_out.abstention_rate`: the share of missing answers that were noticed, 1 − leak;
# - `in_kb.false_abstention_rate`: what that costs, among questions whose article was retrieved;
# - `in_kb.retrieval_miss_rate`: questions whose article was not retrieved, which no guard can help.

# %%
report = write_report("run")
report.to_pandas()

# %% [markdown]
# ## Serve it
#
# The policy serves with the scorer that it was calibrated with, and with no other one.

# %%
guard = Guard.load("run/policy.json")
question = questions["question"][0]
guard.decide(question, [one.page_content for one in search(question)])
