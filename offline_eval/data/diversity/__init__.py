"""The diversity filter: which questions of a knowledge base are worth asking.

questions ─► duplicates ─► keywords ─► meaning ─► kept, and what was dropped and why
"""

from __future__ import annotations

from .filter import filter_questions_file

__all__ = ["filter_questions_file"]
