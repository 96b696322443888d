"""Render the rows of a document as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
import unicodedata

from ...guard.text import clean_text
from ._document import Document

# A spreadsheet takes a cell that starts so for a formula, and runs it.
# Full-width signs count as well in some languages' versions.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def render_csv(document: Document) -> str | None:
    """Render the rows; None where the document has none.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    if document.rows is None:
        return None
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in document.rows():
        writer.writerow([_cell(value) for value in row])
    return buffer.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return repr(value)
    text = clean_text(str(value)).replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(sign for sign in text if sign in "\n\t" or unicodedata.category(sign) != "Cc")
    return f"'{kept}" if kept.startswith(_FORMULA) else kept
