"""Import replies in the formats of other tools."""

from __future__ import annotations
