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
# # What your model knows
#
# A passage can contradict what a model knows, add to it, or not help at all. The UniKnow suite
# asks the same questions in each of these scenarios. Here it asks the bundled language model of
# the microworld, a fictional region of which the model was taught one half.

# %%
import json
from pathlib import Path

from knowgate.offline_eval.suites import (
    ModelChoice,
    find_suite,
    read_suite_run,
    run_suite,
    write_report,
)
from knowgate.offline_eval.testbed import FactStatus, default_world

# %% [markdown]
# ## Questions
#
# Twelve facts, half of them taught and half withheld. Your own file needs `question`, `answers`
# and `context` on each line.

# %%
world = default_world()
facts = [
    fact
    for status in (FactStatus.TAUGHT, FactStatus.WITHHELD)
    for fact in world.facts_with_status(status)[:72:12]
]
questions = [
    {
        "id": str(number),
        "question": world.questions(fact, held_out=True)[0].text,
        "answers": [fact.value],
        "context": world.document_for(fact).text,
    }
    for number, fact in enumerate(facts)
]
Path("questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
questions[0]

# %% [markdown]
# ## Ask
#
# First the model answers each question without context, several times: a question counts as
# known if at least 70 % of these answers are right, and as unknown if none is. Then each method
# answers with every context. `naive` puts the context into the prompt; `prompting` also allows
# "unknown".

# %%
suite = find_suite("uniknow")
settings = suite.settings(data="questions.jsonl", methods=("naive", "prompting"), samples=3)
run_suite(suite, settings, "run", ModelChoice("embedded"))
rows = read_suite_run("run").to_pandas()
rows[["method", "scenario", "context_kind", "answer", "right"]].sample(6, random_state=0)

# %% [markdown]
# ## What it knows
#
# One line per question.

# %%
known = rows.drop_duplicates("question_id")
known["knowledge"].value_counts()

# %% [markdown]
# ## What it does with it
#
# The share of right answers by scenario. In `unknown`, only abstaining is right: this model
# nearly always makes something up, and that is what a guard is for.

# %%
rows.pivot_table(index="scenario", columns="method", values="right").astype(float).round(2)

# %% [markdown]
# ## Reliability
#
# Rely weighs right answers and abstentions; each measure has its interval. `report.html`
# explains the others. Add `guard_naive` to the methods to put a guard in front of the model; it
# is calibrated on separate questions, of which it needs a hundred or more.

# %%
measures = write_report("run").to_pandas().set_index("measure")
measures.filter(regex=r"^methods\.\w+\.rely$", axis="index")
