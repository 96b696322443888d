"""Writing a generated set: all of its files, or none."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..._version import __version__
from ...guard import InputError
from ...guard.files import write_json
from ..uaqfact import ALL_TASKS, write_layout
from ._generation import GeneratedSet
from ._graph import KnowledgeGraph
from ._settings import GenerationSettings
from ._templates import Templates

SCHEMA_VERSION = 1
MANIFEST = "generation.json"


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a place where a set cannot be written, before a graph is read.

    Raises:
        InputError: it is a file, or a folder with something in it.
    """
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        what = "is not empty" if path.is_dir() else "is a file"
        raise InputError(what, where=str(path), mend="name a new folder")


def write_set(
    generated: GeneratedSet,
    folder: str | os.PathLike[str],
    *,
    graph: KnowledgeGraph,
    settings: GenerationSettings,
    templates: Templates,
) -> Path:
    """Write the questions in the UAQFact layout, with `generation.json` beside them.

    Args:
        generated: the questions.
        folder: a new or empty one; it appears whole, or not at all.
        graph, settings, templates: what they were made of, for the manifest.

    Raises:
        InputError: there is something in the folder, or it cannot be written.
    """
    path = Path(folder)
    check_folder(path)
    made = path.parent / f".knowgate-{uuid4().hex}.tmp"
    try:
        made.mkdir(parents=True)
        write_layout(generated.data, made)
        write_json(made / MANIFEST, _manifest(generated, graph, settings, templates))
        if path.exists():
            path.rmdir()
        made.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", where=str(path), mend="choose another place"
        ) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return path


def set_counts(generated: GeneratedSet) -> dict[str, Any]:
    """Questions by task, language, type and kind, without what there is none of."""
    found: dict[str, Any] = {}
    for task, question_type, kind, language, number in generated.data.counts():
        if number:
            by_type = found.setdefault(task, {}).setdefault(language, {})
            if kind:
                by_type.setdefault(question_type, {})[kind] = number
            else:
                by_type[question_type] = number
    examples = Counter[str]()
    for (language, _), rows in generated.data.examples.items():
        examples[language] += len(rows)
    return {**found, "examples": dict(examples)}


def _manifest(
    generated: GeneratedSet,
    graph: KnowledgeGraph,
    settings: GenerationSettings,
    templates: Templates,
) -> Mapping[str, Any]:
    chosen = asdict(settings)
    chosen["types"] = [kind.value for kind in settings.types]
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "uaqfact questions",
        "created_by": f"knowgate {__version__}",
        "graph": {"name": graph.source, "sha256": graph.digest, "triples": graph.triples},
        "settings": chosen,
        "templates": dict(sorted(templates.sha256.items())),
        "tasks": list(ALL_TASKS),
        "counts": set_counts(generated),
        "shortfalls": list(generated.shortfalls),
        "left_out": generated.left_out,
        "properties": [
            {
                "iri": profile.iri,
                "labels": dict(profile.labels),
                "facts": profile.facts,
                "values_per_subject": round(profile.values_per_subject, 4),
                "dated": profile.dated,
            }
            for profile in generated.profiles
            if profile.usable
        ],
        "closed_world": "what the graph does not say is taken not to be so",
    }
