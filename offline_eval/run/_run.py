"""Run folders: a manifest, and tables of rows beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ...guard.errors import optional_import
from ...guard.files import AnyPath, write_json
from .grouping import value_at
from .manifest import Manifest, unusable
from .rows import locked
from .table import RowT, Table, TableSpec

if TYPE_CHECKING:
    import pandas

# By the type in a JSON schema. Each can say that a value is missing.
_DTYPES = {"boolean": "boolean", "integer": "Int64", "number": "float64", "string": "string"}
_OTHER = "object"


def data_frame(rows: Iterable[BaseModel], model: type[BaseModel]) -> pandas.DataFrame:
    """Return one line per row, also of no rows: the model decides columns and dtypes.

    Args:
        rows: of that model.
        model: its fields are the columns; those of a model in it are `field.inner`. Texts and
            enums are `string`, numbers `float64` or `Int64`, truth values `boolean`; sequences
            and mappings stay whole, as `object`.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pd = optional_import("pandas")
    schema = model.model_json_schema()
    for name in [name for name, field in model.model_fields.items() if field.exclude]:
        # Of no stored row.
        del schema["properties"][name]
    columns = list(_columns(schema, schema.get("$defs", {})))
    values = [row.model_dump(mode="json") for row in rows]
    return pd.DataFrame(
        {
            path: pd.Series([value_at(value, path) for value in values], dtype=dtype)
            for path, dtype in columns
        }
    )


def _columns(
    schema: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> Iterator[tuple[str, str]]:
    """Yield the path and the dtype of each column."""
    for name, field in schema["properties"].items():
        found = [
            shared[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            for one in field.get("anyOf", [field])
        ]
        kinds = [one for one in found if one.get("type") != "null"]
        if len(kinds) == 1 and "properties" in kinds[0]:
            for path, dtype in _columns(kinds[0], shared):
                yield f"{name}.{path}", dtype
            continue
        dtypes = {_DTYPES.get(one.get("type", ""), _OTHER) for one in kinds}
        if dtypes == {"Int64", "float64"}:
            dtypes = {"float64"}
        yield name, dtypes.pop() if len(dtypes) == 1 else _OTHER


class Run:
    """A run folder: `manifest.json`, and one JSON-lines file per table.

        with Run.create_or_resume("out", manifest) as run:
            run[ROWS].append(row)              # on disk when this returns
        rows = Run.read("out")[ROWS].rows()    # of an unfinished run, too

    Attributes:
        folder: of the run.
        manifest: as in the folder.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, open_spec: Callable[[TableSpec[Any]], Table[Any]]
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self._open = open_spec
        self._tables: dict[str, Table[Any]] = {}

    def __getitem__(self, spec: TableSpec[RowT]) -> Table[RowT]:
        """Return a table of the run, opened when it is first asked for.

        Raises:
            InputError: the file cannot be used, or a row in it is damaged.
        """
        if spec.name not in self._tables:
            self._tables[spec.name] = self._open(spec)
        return self._tables[spec.name]

    def to_pandas(self, spec: TableSpec[Any]) -> pandas.DataFrame:
        """Return a table of the run as a data frame: one line per stored row.

        Its columns are the fields of the row, those of an object in it as `error.type`, with
        the dtypes `string`, `float64`, `Int64` and `boolean`; lists stay whole.

        Raises:
            InputError: the file cannot be used, or a row in it is damaged.
            MissingDependencyError: pandas is not installed.
        """
        return data_frame(self[spec].rows(), spec.row)

    @classmethod
    @contextmanager
    def create_or_resume(
        cls,
        folder: AnyPath,
        manifest: Manifest,
        *,
        files: Mapping[str, Callable[[Path], object]] | None = None,
        compare: Collection[str] | None = None,
    ) -> Iterator[Run]:
        """Make a run folder, or continue the run in it; for this process alone.

        Args:
            folder: made where missing.
            manifest: what the run is made from and with.
            files: name in the folder → what writes it. They are written before the
                manifest, so that a folder with a manifest has them all.
            compare: fields of the manifest that must be those of the run in the folder; None
                for all but `created_by`.

        Raises:
            InputError: the folder holds another run or anything else, another process
                writes the run, or the folder cannot be written.
        """
        root, own = Path(folder), dict(files or {})
        try:
            held = partial(manifest.is_in, root, own=own, compare=compare)
            held()
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable(root, error) from None
        with ExitStack() as stack:
            stack.enter_context(locked(root / "manifest"))
            # Again under the lock: of two processes that start at once, one writes it.
            if not held():
                for name, write in own.items():
                    write(root / name)
                write_json(root / "manifest.json", manifest.to_json())
            yield cls(root, manifest, lambda spec: stack.enter_context(spec.open(root)))

    def rewrite_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest of a run that is open for writing.

        Raises:
            InputError: the file cannot be written.
        """
        write_json(self.folder / "manifest.json", manifest.to_json())
        self.manifest = manifest

    @classmethod
    def read(cls, folder: AnyPath, manifest: type[Manifest] = Manifest) -> Run:
        """Open a run to read it, finished or not, also while another process writes it.

        Args:
            folder: of the run.
            manifest: the class to check the manifest against.

        Raises:
            InputError: there is no run, or its manifest is broken or from a newer knowgate.
        """
        root = Path(folder)
        return cls(root, manifest.read(root), lambda spec: Table(root, spec, writable=False))
