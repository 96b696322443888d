"""Reports: a document of sections, one renderer per format, and gates.

    suite ─► Document ─► ReportWriter ─► report.html, report.md, report.json, CSV, JUnit

A gate states under which condition a release must not go out, as after `--fail-if`:

    abstention_rate<0.9                         the rate's value
    abstention_rate.low<85%                     the lower end of its interval
    systems[gpt-4o·hyde].replies.tier_3>5       a part of a list, by name or by position
    methods[lm_uniknow@abstention=0.5].rely<0.6
"""

from __future__ import annotations
