"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► read_uniknow_run ─► metrics ─► summary ─┬─► report.json   for gates
                                                          ├─► report.md     for pull requests
                                                          └─► report.html   for people

The same run folder gives the same bytes, wherever it lies.
"""

from __future__ import annotations
