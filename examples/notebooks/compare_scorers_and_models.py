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
# # Compare scorers and models
#
# Which scorer separates answerable questions from others, and which model abstains by itself?
# Both are measured on the same questions, asked with the answer in place and with it left out.

# %%
from pathlib import Path

import pandas as pd
from langchain_core.runnables import RunnableLambda

from knowgate.offline_eval.suites import read_suite_run, run_suite, write_report
from knowgate.offline_eval.suites.ookb import MEASURE, OokbSuite, compare_scorers
from knowgate.offline_eval.testbed import sample_knowledge_base_path

# %% [markdown]
# ## Questions
#
# The first thirty of the bundled sample, the fewest for a verdict on scorers. Take more of yours.

# %%
path = Path("questions.jsonl")
sample = sample_knowledge_base_path().read_text(encoding="utf-8").splitlines()[:30]
path.write_text("\n".join(sample), encoding="utf-8")
pd.read_json(path, lines=True)[["question", "answer"]].head()

# %% [markdown]
# ## Scorers
#
# A name, `hf:MODEL` or `judge:MODEL` is a scorer. These two are bundled: `lexical` counts words
# in common, `bi_encoder` compares embeddings.

# %%
settings = MEASURE.settings(questions=path, passage="answer")
compared = compare_scorers(settings, ["lexical", "bi_encoder"], Path("scorers"), risk=0.2)
compared.choice.reason

# %% [markdown]
# AUROC is the chance that a question with its answer retrieved gets a higher score than one whose
# answer was left out. False abstention is measured where at most 20 % of the left-out ones pass.

# %%
pd.DataFrame(
    [
        {
            "scorer": one.name,
            "auroc": one.auroc.value,
            "low": one.auroc.low,
            "high": one.auroc.high,
            "false abstention": one.false_abstention.value,
            "ms per question": one.milliseconds,
        }
        for one in compared.scorers
    ]
).round(3)

# %% [markdown]
# ## Models
#
# Two scripted models stand in for yours, which may be any runnable of LangChain: one guesses, one
# admits that it does not know. They get no passages here (`direct`), so abstaining is right.


# %%
def guess(prompt: object) -> str:
    return "It costs four euros."


def admit(prompt: object) -> str:
    return "I do not know."


models = {"guesses": RunnableLambda(guess), "admits": RunnableLambda(admit)}
asked = OokbSuite.settings(questions=(path,), retrievals=("direct",), judges=("detector",), limit=4)
run_suite(OokbSuite(models), asked, "replies")
replies = read_suite_run("replies").to_pandas()
replies[["system_id", "case_id", "response", "calls"]]

# %% [markdown]
# The bundled detector decides which replies abstain. Each rate comes with its interval; four
# questions leave it wide.

# %%
measures = write_report("replies").to_pandas().set_index("measure")
measures.filter(regex=r"^systems\..*\.replies\.abstention_rate$", axis="index")
