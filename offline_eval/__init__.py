"""offline_eval"""

from __future__ import annotations
