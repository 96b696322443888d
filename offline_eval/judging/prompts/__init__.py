"""What language models are told when they judge replies: one file per criterion."""

from __future__ import annotations
