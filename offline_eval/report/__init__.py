"""Reports: a document of sections, one renderer per format, and gates.

    suite ─► Document ─► ReportWriter ─► report.html, report.md, report.json, CSV, JUnit

A gate states under which condition a release must not go out, as after `--fail-if`:

    abstention_rate<0.9                         the rate's value
    abstention_rate.low<85%                     the lower end of its interval
    systems[gpt-4o·hyde].replies.tier_3>5       a part of a list, by name or by position
    methods[lm_uniknow@abstention=0.5].rely<0.6
"""

from __future__ import annotations

from ._cascade import CascadeStages, cascade_without_what_if
from ._document import (
    Case,
    CaseLine,
    Cases,
    Check,
    Document,
    Facts,
    Figure,
    Figures,
    Passages,
    Prose,
    Section,
)
from ._plots import Colour, Plot
from ._tables import Cell, Line, Table
from ._templates import Templates, explained
from ._text import counted, decimal, estimate_text, one_line, p_value, percent
from ._what_if import WhatIf, WhatIfCase
from ._writing import ReportPaths, ReportWriter

__all__ = [
    "CascadeStages",
    "Case",
    "CaseLine",
    "Cases",
    "Cell",
    "Check",
    "Colour",
    "Document",
    "Facts",
    "Figure",
    "Figures",
    "Line",
    "Passages",
    "Plot",
    "Prose",
    "ReportPaths",
    "ReportWriter",
    "Section",
    "Table",
    "Templates",
    "WhatIf",
    "WhatIfCase",
    "cascade_without_what_if",
    "counted",
    "decimal",
    "estimate_text",
    "explained",
    "one_line",
    "p_value",
    "percent",
]
