"""Check that `final/` is what the run says it is: load it plainly and validate it again.

python -m sparing.train.revalidate RUN_FOLDER
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparing.data.problems import load_problems
from sparing.errors import RunError, SparingError
from sparing.progress import SilentProgress
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.model import load_model
from sparing.settings import JsonlSource, RunConfig
from sparing.train.run_folder import RunFolder
from sparing.train.validation import evaluate_split, validation_figures
from sparing.verify.grader import Grader


@dataclass(frozen=True, kw_only=True, slots=True)
class Revalidation:
    """Figures of the last row of validation.jsonl, and those that `final/` gives."""

    recorded: dict[str, Any]
    measured: dict[str, Any]

    @property
    def same(self) -> bool:
        """Whether every figure and every answer's outcome and length agree exactly."""
        return self.recorded == self.measured


def revalidate(run_folder: str | Path) -> Revalidation:
    """Validate `final/` of a run with the run's own problems, settings and seed.

    Figures are identical on the CPU with the threads the run had. RunError where the folder holds no finished run.
    """
    folder = RunFolder(run_folder)
    config = RunConfig.model_validate(folder.read_json("config.json"))
    rows = folder.rows("validation")
    if not folder.final.is_dir() or not rows:
        raise RunError(f"{folder.path} has no final/ and validation to compare; let the run finish first.")
    problems = load_problems(JsonlSource(path=str(folder.path / "validation_problems.jsonl")))
    loaded = load_model(config.model.model_copy(update={"path": str(folder.final)}))
    completer = LocalCompleter(loaded, config.rollout.max_sequences)
    with Grader(config.thinking, config.verifier) as grader:
        results = evaluate_split(
            config, completer, grader, problems, split="validation", progress=SilentProgress(), name="revalidation"
        )
    measured = validation_figures(results, config, loaded.tokenizer)
    return Revalidation(recorded={key: rows[-1].get(key) for key in measured}, measured=measured)


def main() -> int:
    """Print recorded and measured figures; exit status 0 where they are the same."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    try:
        found = revalidate(sys.argv[1])
    except SparingError as error:
        print(error, file=sys.stderr)
        return 1
    for key in ("accuracy", "length", "truncated_share"):
        print(f"{key}: recorded {found.recorded[key]!r}, measured {found.measured[key]!r}")
    print("same" if found.same else "different")
    return 0 if found.same else 1


if __name__ == "__main__":
    raise SystemExit(main())
