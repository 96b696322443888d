"""Questions with lettered options: which ones does a reply choose?"""

from __future__ import annotations

from ._parsing import LETTERS, parse_choices

__all__ = ["LETTERS", "parse_choices"]
