"""The files of a run folder: rows that survive a kill, and JSON that is whole or absent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sparing.errors import RunError

# Files that grow by rows. A checkpoint records their sizes, and resuming cuts them back to those.
ROW_FILES = ("metrics", "timings", "validation", "decisions")
# Names of half-written things; whatever bears the prefix when a run resumes was left by a dead process.
TEMPORARY = ".tmp-"


def fsync_path(path: Path) -> None:
    """Force a file or a folder's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json(value: Any) -> str:
    """One line of strict JSON; a value that is not a number raises instead of writing NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_atomically(path: Path, text: str) -> None:
    """Write a whole file or nothing, even through a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{TEMPORARY}{path.name}"
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(path)
    fsync_path(path.parent)


class RunFolder:
    """A run folder on disk, laid out as `sparing.report` reads it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def final(self) -> Path:
        """The trained model, a plain Hugging Face folder."""
        return self.path / "final"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    def row_file(self, name: str) -> Path:
        """Path of a file of rows, such as `metrics`."""
        return self.path / f"{name}.jsonl"

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Add a row to `metrics`, `timings`, `validation` or `decisions`."""
        with self.row_file(name).open("a", encoding="utf-8") as stream:
            stream.write(to_json(row) + "\n")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a file; none where the file does not exist."""
        path = self.row_file(name)
        if not path.exists():
            return []
        return [json.loads(line) for line in _lines(path)]

    def sizes(self) -> dict[str, int]:
        """Bytes of every row file, forced to disk first so that a checkpoint never points past them."""
        sizes = {}
        for name in ROW_FILES:
            path = self.row_file(name)
            if path.exists():
                fsync_path(path)
            sizes[name] = path.stat().st_size if path.exists() else 0
        return sizes

    def cut_back(self, sizes: Mapping[str, int], step: int) -> None:
        """Return to the moment of a checkpoint: later rows, torn lines, rollouts and temporaries go."""
        for name in ROW_FILES:
            path = self.row_file(name)
            size = sizes.get(name, 0)
            held = path.stat().st_size if path.exists() else 0
            if held < size:
                raise RunError(
                    f"{path} has {held} bytes but the checkpoint of step {step} was made with {size}; the file was cut or "
                    "replaced. Restore it, or start again in a new output folder."
                )
            if held > size:
                os.truncate(path, size)
        for path in (self.path / "rollouts").glob("step-*.jsonl"):
            if int(path.stem.removeprefix("step-")) > step:
                path.unlink()
        self.remove_temporaries()

    def remove_temporaries(self) -> None:
        """Delete half-written files and folders of a process that is gone."""
        for folder in (self.path, self.checkpoints, self.path / "evals", self.path / "rollouts"):
            for path in folder.glob(f"{TEMPORARY}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def write_json(self, name: str, value: Any) -> None:
        """Write `name` (such as `summary.json`) whole."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
        write_atomically(self.path / name, text + "\n")

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the folder; RunError where it is missing or broken."""
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{path} does not exist; {self.path} is not a run folder that can be read.") from None
        except ValueError as error:
            raise RunError(
                f"{path} is not JSON ({error}); restore it, or start again in a new output folder."
            ) from None

    def write_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write a file of rows that is complete from the start, such as `evals/base.jsonl`."""
        write_atomically(self.path / name, "".join(to_json(row) + "\n" for row in rows))

    def read_rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of a file that `write_rows` wrote."""
        return [json.loads(line) for line in _lines(self.path / name)]


def _lines(path: Path) -> list[bytes]:
    """Lines as bytes: the text method would also split at separators such as U+2028 that stand inside JSON strings."""
    return path.read_bytes().splitlines()
