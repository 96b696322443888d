"""Keep torch usable in processes that are forked from one that has computed with it.

Servers that load a model once and then fork their workers (`gunicorn --preload`, or
`multiprocessing` with `fork`) leave the threads of torch's pool behind. A forked process would
wait for them for ever at its first operation that is split over threads.
"""

from __future__ import annotations

import os
import sys
from functools import cache


@cache
def keep_torch_usable() -> None:
    """Let torch compute on one thread in every process that is forked from this one.

    That is how the workers of torch's own data loaders compute. Called once it is known that
    torch computes on the CPU here.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_compute_on_one_thread)


def _compute_on_one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
