"""Prompts of the suite, one file each; a folder of the user's may replace any of them."""

from __future__ import annotations
