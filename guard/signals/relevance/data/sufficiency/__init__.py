"""The bundled sufficiency adapter and its mixes."""

from __future__ import annotations
