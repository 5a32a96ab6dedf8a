import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparing.cli import app
from sparing.recipe.load import load_recipe

ROOT = Path(__file__).parents[1]
RECIPE = """
[model]
path = {model}
threads = 1
[data]
train = [{{type = "lab", domain = "arithmetic", tier = "easy", split = "train", num_problems = 12}}]
validation = [{{type = "lab", domain = "arithmetic", tier = "easy", split = "validation", num_problems = 3}}]
test = [{{type = "lab", domain = "logic", tier = "easy", split = "test", num_problems = 3}}]
[rollout]
num_rollouts = 2
max_tokens = 8
[mixture]
batch_size = 4
rho = 0.25
[optimizer]
warmup_steps = 1
[validation]
every = 2
k = 2
test_k = 2
[checkpoint]
every = 1
[[curriculum.stages]]
type = "compression"
steps = 2
"""


def sparing(*arguments: str | Path):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """The lab's model with random weights, small enough to train in a test."""
    from sparing.lab.build import new_model
    from sparing.lab.tokenizer import make_tokenizer

    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer()
    new_model(tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def recipe(tmp_path, model) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(model=json.dumps(str(model))))
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from sparing.cli import app; "
        "from typer.testing import CliRunner; result = CliRunner().invoke(app, ['--help']); "
        "assert result.exit_code == 0 and 'train' in result.output; "
        "print([name for name in ('torch', 'transformers', 'numpy', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.strip() == "[]"


def test_python_m_sparing():
    command = [sys.executable, "-m", "sparing", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert "Usage: python -m sparing " in done.stdout


def test_version():
    result = sparing("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("sparing")


class TestMistakes:
    def test_are_one_block_on_stderr_with_status_2(self, tmp_path):
        command = [
            sys.executable,
            "-m",
            "sparing.cli",
            "train",
            "lab",
            "--set",
            "mixture.rho=2",
            "--set",
            "mixture.rh=1",
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert lines[0] == "error: preset lab: 2 mistakes in the recipe"
        assert len(lines) == 3
        assert "Traceback" not in done.stderr

    def test_of_data_are_found_before_the_model_is_looked_at(self, recipe, tmp_path):
        result = sparing(
            "train", recipe, "--set", "data.train=none.jsonl", "--set", "model.path=/no/such", "-o", tmp_path / "run"
        )
        assert result.exit_code == 2
        assert "none.jsonl does not exist" in result.stderr
        assert not (tmp_path / "run").exists()

    def test_of_the_model(self, recipe, tmp_path):
        result = sparing("train", recipe, "--set", "model.path=/no/such", "-o", tmp_path / "run")
        assert result.exit_code == 2
        assert "/no/such" in result.stderr

    def test_what_the_system_refuses(self, monkeypatch, tmp_path):
        def full(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path / "report.html"))

        monkeypatch.setattr("sparing.report.write_report", full)
        result = sparing("report", tmp_path)
        assert result.exit_code == 2
        assert result.stderr == f"error: {tmp_path / 'report.html'}: No space left on device\n"

    def test_resume_without_a_run(self, tmp_path):
        result = sparing("train", "--resume", "--output", tmp_path / "none")
        assert result.exit_code == 2
        assert "holds no run" in result.stderr

    def test_report_of_no_run(self, tmp_path):
        result = sparing("report", tmp_path / "none")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")


def test_train_report_and_what_comes_after(recipe, tmp_path):
    run = tmp_path / "run"
    result = sparing("train", recipe, "--output", run, "--no-preflight")
    assert result.exit_code == 0, result.output
    assert "problems: 12 to train, 3 to validate, 3 to test" in result.stdout
    assert "step 2/2 compression accuracy=0.000" in result.stdout
    assert "logic" in result.stdout
    assert f"report: {run / 'report.html'}\nmodel:  {run / 'final'}" in result.stdout
    assert json.loads((run / "config.json").read_text())["output"] == str(run)

    reported = sparing("report", run)
    assert reported.exit_code == 0
    assert "logic          all    unseen" in reported.stdout

    again = sparing("train", recipe, "--output", run)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr

    resumed = sparing("train", "--resume", "--output", run)
    assert resumed.exit_code == 0
    assert "is finished" in resumed.stdout

    other = sparing("train", recipe, "--resume", "--output", run, "--set", "seed=3")
    assert other.exit_code == 2
    assert "seed was 0 and is 3" in other.stderr


def test_ctrl_c_says_how_to_resume_and_resuming_finishes(recipe, tmp_path):
    run = tmp_path / "run"
    words = ["train", str(recipe), "--output", str(run), "--no-preflight", "--set", "curriculum.stages.0.steps=30"]
    words += ["--set", "validation.every=100", "--set", "checkpoint.every=5"]
    command = [sys.executable, "-m", "sparing.cli", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 1/"):
            break
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 130, complaint
    assert "Traceback" not in complaint
    assert "the last checkpoint is whole. Resume with:" in complaint
    told = complaint.strip().splitlines()[-1].split()
    assert told[:4] == ["sparing", "train", str(recipe), "--resume"]

    result = sparing(*told[1:])
    assert result.exit_code == 0, result.output
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 31))


def test_preflight_trains_nothing_and_writes_nothing(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = sparing("preflight", recipe)
    assert result.exit_code == 0, result.output
    assert "Preflight: 0% of rollouts correct" in result.stdout
    assert "warning: " in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == before


class TestInit:
    def data(self, folder: Path) -> Path:
        path = folder / "problems.jsonl"
        path.write_text(
            "".join(json.dumps({"prompt": f"What is {n} + 1?", "answer": str(n + 1)}) + "\n" for n in range(40))
        )
        return path

    def test_writes_a_recipe_that_loads(self, tmp_path, model):
        result = sparing("init", tmp_path / "mine", "--model", model, "--data", self.data(tmp_path))
        assert result.exit_code == 0, result.output
        assert "for 40 problems" in result.stdout
        assert load_recipe(tmp_path / "mine" / "recipe.toml").model.path == str(model)

    def test_notes_a_model_that_is_not_there(self, tmp_path):
        result = sparing("init", tmp_path, "--model", "modle", "--data", self.data(tmp_path))
        assert result.exit_code == 0
        assert "note: there is no folder modle here" in result.stdout

    def test_never_overwrites(self, tmp_path, model):
        arguments = ("init", tmp_path, "--model", model, "--data", self.data(tmp_path))
        assert sparing(*arguments).exit_code == 0
        result = sparing(*arguments)
        assert result.exit_code == 2
        assert "exists and is left as it is" in result.stderr

    def test_refuses_broken_data(self, tmp_path, model):
        path = tmp_path / "broken.jsonl"
        path.write_text('{"prompt": "q"}\n')
        result = sparing("init", tmp_path, "--model", model, "--data", path)
        assert result.exit_code == 2
        assert "broken.jsonl:1" in result.stderr
        assert not (tmp_path / "recipe.toml").exists()


def test_lab_show_shows_problems_of_every_domain():
    result = sparing("lab", "show")
    assert result.exit_code == 0
    assert "arithmetic (trained in the lab preset)" in result.stdout
    assert result.stdout.count("    shortest, ") == 14
    wrong = sparing("lab", "show", "--domain", "cooking")
    assert wrong.exit_code == 2
    assert "cooking" in wrong.stderr


def test_sft_writes_a_model(tmp_path, model):
    data = tmp_path / "sft.jsonl"
    data.write_text(
        "".join(json.dumps({"prompt": "( 1 + 1 )", "response": "<think> 2 </think> 2"}) + "\n" for _ in range(4))
    )
    result = sparing("sft", model, data, tmp_path / "out", "--steps", "2", "--batch-tokens", "64")
    assert result.exit_code == 0, result.output
    assert "step 2 loss=" in result.stdout
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert sparing("sft", model, tmp_path / "none.jsonl", tmp_path / "out2").exit_code == 2
    on_a_file = sparing("sft", "lab", data, data)
    assert on_a_file.exit_code == 2
    assert "is a file; choose another output folder" in on_a_file.stderr
    assert sparing("sft", "lab", data, tmp_path / "out3", "--steps", "1").exit_code == 0
