"""Loading models without drawing on the caller's terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ._optional_imports import optional_import


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Switch transformers' progress bar for weights off, and on again if it was on."""
    logging: Any = optional_import("transformers").utils.logging
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
