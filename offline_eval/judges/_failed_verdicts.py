"""Failed verdicts taken out of a run, so that they are asked for again."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from ...guard import InputError
from ..runner import StoreKind, open_store, stored_rows
from ..runner._lock import StoreLock


def drop_failed_verdicts(stem: Path, judges: Collection[str], kind: StoreKind) -> int:
    """Rewrite the store of verdicts without the failures of some judges.

    A kill leaves the store as it was, or as it is to be.

    Args:
        stem: of the store.
        judges: names.
        kind: of the store.

    Returns:
        How many failures are gone.

    Raises:
        InputError: another process writes the store, or it cannot be written.
    """
    lock = StoreLock(stem)
    try:
        rows = [row for _, row in stored_rows(stem)]
        kept = [row for row in rows if row.get("error") is None or row.get("judge") not in judges]
        if len(kept) < len(rows):
            _replace(stem, kept, kind)
        return len(rows) - len(kept)
    finally:
        lock.release()


def _replace(stem: Path, rows: Collection[dict[str, object]], kind: StoreKind) -> None:
    other = stem.with_name(f".{stem.name}-kept")
    written = other.with_name(f"{other.name}.{kind}")
    try:
        # What a kill left of it.
        written.unlink(missing_ok=True)
        with open_store(other, key="judgement_id", kind=kind) as store:
            waiting = [store.submit(row) for row in rows]
            for stored in waiting:
                stored.result()
        os.replace(written, stem.with_name(f"{stem.name}.{kind}"))
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", where=str(stem.parent), mend="mend that"
        ) from None
