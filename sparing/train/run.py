"""A whole run, from problems to a run folder: preflight, base, stages, final, summary; or the rest of it."""

from __future__ import annotations

import errno
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from sparing.data.mastery_table import MasteryTable
from sparing.data.sampler import MixtureSampler
from sparing.errors import RunError
from sparing.method.objective import objective
from sparing.progress import Progress
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.groups import Grades
from sparing.rollout.model import load_model, save_model
from sparing.settings import RunConfig
from sparing.train.checkpoint import Checkpoint, list_checkpoints, publish
from sparing.train.opening import check_answers, locked, resume_folder, start_folder
from sparing.train.policy import Policy
from sparing.train.preflight import check_settings, longest_prompt, run_preflight
from sparing.train.run_folder import TEMPORARY, RunFolder
from sparing.train.stage import run_stage
from sparing.train.summary import summarise
from sparing.train.trainer import Position, Trainer
from sparing.train.update import PolicyUpdater
from sparing.train.validation import evaluate_split, result_rows, validate
from sparing.types import Problem
from sparing.verify.grader import Grader

Problems = Mapping[str, Sequence[Problem]]
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def train_run(
    config: RunConfig,
    train: Sequence[Problem],
    validation: Sequence[Problem],
    test: Sequence[Problem],
    *,
    resume: bool,
    progress: Progress,
    preflight: bool = True,
) -> Path:
    """Run the curriculum of `config` into the folder `config.output`; returns that folder.

    With `resume` a run that was ended in any way goes on from its newest checkpoint and, on the CPU with the same number
    of threads, leaves the same metrics and weights as if it had never ended. `test` may be empty. Raises SparingError for
    everything a user can mend, and KeyboardInterrupt, after saying how to resume, on SIGINT and SIGTERM.
    """
    problems = {"train": train, "validation": validation, "test": test}
    check_settings(config, problems)
    folder = RunFolder(config.output)
    if resume and not folder.path.is_dir():
        raise RunError(f"{folder.path} does not exist, so there is nothing to resume; start without --resume.")
    with _explained(folder, progress), locked(folder):
        if resume:
            checkpoint = resume_folder(folder, config, problems)
            if (folder.path / "summary.json").exists():
                progress.message(f"{folder.path} is finished; there is nothing left to do.")
                return folder.path
        else:
            checkpoint = None
        with Grader(config.thinking, config.verifier) as grader:
            if not resume:
                check_answers(problems, grader)
                start_folder(folder, config, problems)
            trainer = _build(config, folder, progress, grader, train, validation, checkpoint)
            _run(trainer, problems, checkpoint, preflight=preflight)
    return folder.path


def preflight_run(
    config: RunConfig,
    train: Sequence[Problem],
    validation: Sequence[Problem],
    test: Sequence[Problem],
    *,
    progress: Progress,
) -> dict[str, Any]:
    """The preflight of a run alone: nothing is trained and no file is written."""
    problems = {"train": train, "validation": validation, "test": test}
    check_settings(config, problems)
    with Grader(config.thinking, config.verifier) as grader:
        check_answers(problems, grader)
        trainer = _build(config, RunFolder(config.output), progress, grader, train, validation, None)
        return run_preflight(trainer, problems)


def _build(
    config: RunConfig,
    folder: RunFolder,
    progress: Progress,
    grader: Grades,
    train: Sequence[Problem],
    validation: Sequence[Problem],
    checkpoint: Checkpoint | None,
) -> Trainer:
    """Load the model, of the checkpoint where there is one, and put the parts of the run together."""
    settings = config.model.model_copy(update={"path": str(checkpoint.path)}) if checkpoint else config.model
    loaded = load_model(settings)
    loaded.model.eval()  # No dropout: the update must score what the rollouts sampled from.
    chosen = objective(config.objective.algorithm, config.objective.clip_low, config.objective.clip_high)
    updater = PolicyUpdater(
        Policy(loaded.model, temperature=config.rollout.temperature, autocast=config.model.autocast),
        chosen,
        config.optimizer,
        updates_per_batch=config.objective.updates_per_batch,
        max_tokens=config.rollout.max_tokens,
    )
    trainer = Trainer(
        config=config,
        folder=folder,
        progress=progress,
        loaded=loaded,
        completer=LocalCompleter(loaded, config.rollout.max_sequences),
        grader=grader,
        objective=chosen,
        updater=updater,
        sampler=MixtureSampler(len(train), MasteryTable(len(train)), config.seed),
        train=train,
        validation=validation,
        position=Position(),
    )
    if checkpoint is not None:
        trainer.restore(checkpoint)
        threads = torch.get_num_threads()
        if threads != checkpoint.threads:
            progress.message(
                f"warning: the run had {checkpoint.threads} CPU threads and has {threads} now; figures will differ in their "
                f"last digits. Set model.threads = {checkpoint.threads} for the same ones."
            )
    return trainer


def _run(trainer: Trainer, problems: Problems, checkpoint: Checkpoint | None, *, preflight: bool) -> None:
    config, folder, progress = trainer.config, trainer.folder, trainer.progress
    stages = config.curriculum.plan()
    progress.run_started(config, sum(stage.steps for stage in stages), checkpoint.step if checkpoint else None)
    if checkpoint is None:
        if not preflight:
            longest_prompt(trainer, [problem for split in problems.values() for problem in split])
        elif not (folder.path / "preflight.json").exists():
            folder.write_json("preflight.json", run_preflight(trainer, problems))
        _test(trainer, problems["test"], "base")
        validate(trainer, stages[0])
        trainer.save()
    if trainer.position.stage < len(stages):
        # Of weights that are trained on; a later checkpoint, damaged since, may have left them behind.
        shutil.rmtree(folder.final, ignore_errors=True)
        (folder.path / "evals" / "final.jsonl").unlink(missing_ok=True)
    while trainer.position.stage < len(stages):
        run_stage(trainer, stages)
    _write_final(trainer)
    _test(trainer, problems["test"], "final")
    summary = summarise(trainer, {problem.domain for problem in problems["train"]})
    folder.write_json("summary.json", summary)
    progress.run_ended(summary)


def _test(trainer: Trainer, test: Sequence[Problem], name: str) -> None:
    """Answer the test problems into evals/NAME.jsonl, unless that was done before."""
    file = f"evals/{name}.jsonl"
    if not test or (trainer.folder.path / file).exists():
        return
    results = evaluate_split(
        trainer.config,
        trainer.completer,
        trainer.grader,
        test,
        split="test",
        progress=trainer.progress,
        name=f"test of the {name} model",
    )
    trainer.folder.write_rows(file, result_rows(results))


def _write_final(trainer: Trainer) -> None:
    final = trainer.folder.final
    if final.exists():
        return
    temporary = final.parent / f"{TEMPORARY}final"
    shutil.rmtree(temporary, ignore_errors=True)
    save_model(trainer.loaded.model, trainer.loaded.tokenizer, temporary)
    publish(temporary, final)


@contextmanager
def _explained(folder: RunFolder, progress: Progress) -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt, and say what is left of the run when it is interrupted or the disk is full."""

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous: Any = None
    in_main = threading.current_thread() is threading.main_thread()
    if in_main:
        previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        progress.message(f"Interrupted. {_kept(folder)} To go on, give the same command with resume.")
        raise
    except torch.OutOfMemoryError as error:
        raise RunError(
            f"out of GPU memory: {str(error).splitlines()[0]} {_kept(folder)} Lower rollout.max_sequences or "
            "optimizer.microbatch_tokens and resume the run, or start anew with a lower rollout.max_tokens."
        ) from error
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise RunError(f"{folder.path}: {error}. {_kept(folder)} Make room and resume the run.") from error
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, previous)


def _kept(folder: RunFolder) -> str:
    found = list_checkpoints(folder)
    if not found:
        return f"{folder.path} has no checkpoint yet, so the run will begin from its start."
    return f"The last checkpoint is {found[-1].path}; nothing up to step {found[-1].step} is lost."
