"""Problem files: JSONL rows {"prompt" or "messages", "answer"} read with errors that say what to mend."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparing.data.rows import RowError, parse_line, problem_of
from sparing.errors import DataError
from sparing.seeding import derive_rng
from sparing.settings import JsonlSource
from sparing.types import Problem

_SHOWN_MISTAKES = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def load_problems(source: JsonlSource, *, prompt_suffix: str = "") -> list[Problem]:
    """The problems of a JSONL file, checked as a whole before any is returned.

    A row holds "prompt" (one user message) or "messages" (a list of {"role", "content"} that ends with the
    user), "answer" (a text or a number), and optionally "id", "kind", "domain", "tier" and "shortest_length".
    Other keys are allowed and ignored. Blank lines are skipped. `prompt_suffix` is appended to the last user
    message. Rows without an id are named by file and line.

    Raises:
        DataError: the file is missing or empty, or rows are broken, incomplete or duplicates; the message
            names file and line of up to ten different mistakes.
    """
    path = Path(source.path)
    problems: list[Problem] = []
    mistakes = _Mistakes(path)
    line_of: dict[object, int] = {}
    for number, line in _lines(path):
        if source.limit is not None and len(problems) >= source.limit:
            break
        try:
            problem = problem_of(
                parse_line(line),
                name=f"{path.stem}-{number}",
                kind=source.kind,
                domain=source.domain or path.stem,
                suffix=prompt_suffix,
            )
            _check_new(problem, number, line_of)
        except RowError as error:
            mistakes.add(number, str(error))
            if number == 1 and line.strip() in (b"[", b"[{", b"{"):
                mistakes.note = "the file looks like one JSON document; write one object a line (JSON Lines)"
        else:
            problems.append(problem)
    mistakes.raise_if_any()
    if not problems:
        raise DataError(f'{path} has no problems; write one {{"prompt": "...", "answer": "..."}} a line')
    return problems


def write_problems(path: str | Path, problems: Sequence[Problem]) -> None:
    """Write problems as `load_problems` reads them, one JSON object a line."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for problem in problems:
            row: dict[str, object] = {"id": problem.id}
            if len(problem.turns) == 1 and problem.turns[0].role == "user":
                row["prompt"] = problem.turns[0].content
            else:
                row["messages"] = [{"role": turn.role, "content": turn.content} for turn in problem.turns]
            row |= {"answer": problem.answer, "kind": problem.kind, "domain": problem.domain}
            if problem.tier:
                row["tier"] = problem.tier
            if problem.shortest_length is not None:
                row["shortest_length"] = problem.shortest_length
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def split_validation(problems: Sequence[Problem], num: int, seed: int) -> tuple[list[Problem], list[Problem]]:
    """(train, validation): `num` problems drawn at random are set apart; both keep their order.

    Raises:
        DataError: nothing would be left to train on.
    """
    if num >= len(problems):
        raise DataError(
            f"{num} validation problems are to be set apart and the training data has {len(problems)}; "
            "set validation.num_problems lower, or name a file in data.validation"
        )
    apart = set(derive_rng(seed, "split_validation").choice(len(problems), size=num, replace=False).tolist())
    train = [problem for place, problem in enumerate(problems) if place not in apart]
    return train, [problems[place] for place in sorted(apart)]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of the lines that are not blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                if not text.isspace() and text:
                    yield number, text
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; paths are seen from the folder the command runs in") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; name the JSONL file in it") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check its permissions") from error


def _check_new(problem: Problem, number: int, line_of: dict[object, int]) -> None:
    turns = tuple((turn.role, turn.content) for turn in problem.turns)
    first = line_of.setdefault(turns, number)
    if first != number:
        raise RowError(f"the same question as line {first}; keep one of them")
    first = line_of.setdefault(problem.id, number)
    if first != number:
        raise RowError(f'the id "{problem.id}" is that of line {first} already; give every row its own')


class _Mistakes:
    """Mistakes of a file: the first ten different ones, each with the lines it was found on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, list[int]] = {}
        self._num_rows = 0
        self.note = ""

    def add(self, number: int, text: str) -> None:
        self._num_rows += 1
        if text in self._lines or len(self._lines) < _SHOWN_MISTAKES:
            self._lines.setdefault(text, []).append(number)

    def raise_if_any(self) -> None:
        if not self._num_rows:
            return
        shown = []
        for text, lines in self._lines.items():
            more = len(lines) - 1
            also = f" (and on {more} more line{'s' if more > 1 else ''}, next {lines[1]})" if more else ""
            shown.append(f"{self._path}:{lines[0]}: {text}{also}")
        unshown = self._num_rows - sum(map(len, self._lines.values()))
        if unshown:
            shown.append(f"and {unshown} more broken row{'s' if unshown > 1 else ''}")
        if self.note:
            shown.insert(0, f"{self._path}: {self.note}")
        raise DataError("\n".join(shown))
