"""Changes that make the embedded model a cross-encoder, its head and the mix."""

from __future__ import annotations
