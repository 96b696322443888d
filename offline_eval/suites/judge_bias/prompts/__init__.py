"""Prompts of the protocol; a folder of one's own may replace any of them."""

from __future__ import annotations
