"""Ray: workers all over a cluster that make calls for one driver.

    driver: ask(item) ─► the worker with the least to do ─► call(item) ─► result
                  └─ it died: another worker is asked, and the dead one is replaced

Ray is imported with the first pool.
"""

from __future__ import annotations
