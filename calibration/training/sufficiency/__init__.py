"""Train a sufficiency scorer: questions, batches, objective, adapter, mix.

`tune_relevance` adapts the scorer `sufficiency` to one's own knowledge base and says whether it
helped. The other names are what `tools/sufficiency` makes the bundled scorer with.
"""

from __future__ import annotations
