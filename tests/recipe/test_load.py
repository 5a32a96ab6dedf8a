import json
from pathlib import Path

import pytest

from sparing.errors import RecipeError, RunError
from sparing.recipe.checks import notes
from sparing.recipe.load import load_recipe, load_run_config, preset_names
from sparing.settings import JsonlSource, LabSource

DATA = '[data]\ntrain = "train.jsonl"\n'


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(recipe: Path | str | None, *overrides: str) -> list[str]:
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe, overrides)
    return [line.strip() for line in str(error.value).splitlines()]


def test_presets_load_and_the_lab_is_the_default():
    assert preset_names() == ["lab", "paper"]
    assert load_recipe() == load_recipe("lab")
    assert load_recipe().model.path == "lab"


def test_the_paper_preset_has_the_values_of_section_4_1():
    paper = load_recipe("paper")
    assert paper.model.path == "XiaomiMiMo/MiMo-7B-RL"
    assert (paper.objective.algorithm, paper.objective.clip_low, paper.objective.clip_high) == ("dapo", 0.2, 0.27)
    assert (paper.mixture.batch_size, paper.mixture.rho, paper.mixture.rest) == (256, 0.1, "all")
    assert (paper.rollout.num_rollouts, paper.rollout.max_tokens) == (8, 65536)
    assert (paper.rollout.temperature, paper.validation.temperature, paper.validation.k) == (1.0, 0.6, 32)
    assert (paper.optimizer.learning_rate, paper.optimizer.warmup_steps) == (3e-6, 10)


def test_the_lab_preset_trains_on_one_domain_and_tests_on_all():
    from sparing.lab import TRAINED_DOMAIN

    data = load_recipe().data
    assert {source.domain for source in data.train} == {(TRAINED_DOMAIN,)}
    assert {source.domain for source in data.test} == {("all",)}
    assert all(isinstance(source, LabSource) and source.split == "test" for source in data.test)


def test_a_file_is_read_and_what_it_leaves_out_is_the_default(tmp_path):
    config = load_recipe(write(tmp_path, DATA + "[mixture]\nrho = 0.25\n"))
    assert config.mixture.rho == 0.25
    assert config.data.train == (JsonlSource(path="train.jsonl"),)
    assert config.rollout.num_rollouts == 8


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ('train = "a.jsonl"', ["a.jsonl"]),
        ('train = ["a.jsonl", {path = "b.jsonl", limit = 3}]', ["a.jsonl", "b.jsonl"]),
        ('train = {path = "a.jsonl"}', ["a.jsonl"]),
        ('[[data.train]]\ntype = "jsonl"\npath = "a.jsonl"', ["a.jsonl"]),
    ],
)
def test_sources_may_be_written_in_several_ways(tmp_path, data, paths):
    config = load_recipe(write(tmp_path, f"[data]\n{data}\n"))
    assert [source.path for source in config.data.train] == paths


class TestOverrides:
    def test_values_are_toml_and_bare_words_are_strings(self):
        config = load_recipe(
            "lab",
            [
                "mixture.rho=0.3",
                "model.path=org/name",
                "early_stopping.enabled=false",
                "objective.clip_low=0.1",
                'output="runs/a b"',
            ],
        )
        assert config.mixture.rho == 0.3
        assert config.model.path == "org/name"
        assert config.early_stopping.enabled is False
        assert config.output == "runs/a b"

    def test_entries_of_a_list_are_reached_by_index(self):
        before, after = load_recipe("lab"), load_recipe("lab", ["curriculum.stages.1.steps=7"])
        assert [stage.steps for stage in after.curriculum.stages] == [
            7 if index == 1 else stage.steps for index, stage in enumerate(before.curriculum.stages)
        ]

    def test_a_list_the_recipe_leaves_out_is_changed_from_its_default(self, tmp_path):
        config = load_recipe(write(tmp_path, DATA), ["curriculum.stages.2.steps=9"])
        assert [(s.type, s.steps) for s in config.curriculum.stages] == [
            ("accuracy", 20),
            ("compression", 60),
            ("accuracy", 9),
        ]

    def test_the_index_after_the_last_adds_an_entry(self, tmp_path):
        config = load_recipe(write(tmp_path, DATA), ["data.train.0.limit=5", "data.train.1.path=b.jsonl"])
        assert config.data.train == (JsonlSource(path="train.jsonl", limit=5), JsonlSource(path="b.jsonl"))

    def test_all_mistakes_come_with_the_option_they_are_in(self):
        told = mistakes("lab", "nonsense", "curriculum.stages.9.steps=3", "mixture.rho=high", "mixture.rh=3")
        assert told[0] == "preset lab: 4 mistakes in the recipe"
        assert "--set nonsense: write it as KEY=VALUE" in told[1]
        assert "is a list of 3; name an entry by its index, 0 to 2" in told[2]
        assert '--set mixture.rho = "high": must be a number, above 0 and below 1' in told[3]
        assert told[4] == "--set mixture.rh = 3: there is no such key; did you mean mixture.rho?"

    def test_more_toml_in_a_value_cannot_reach_other_keys(self):
        told = mistakes("lab", "mixture.rho=0.5\nseed = 3")
        assert len(told) == 2
        assert "mixture.rho" in told[1]


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('outptu = "x"', 'line 1: outptu = "x": there is no such key; did you mean output?'),
            ('[modle]\npath = "x"', "line 1: modle: there is no such section; did you mean model?"),
            ("rho = 0.1", "line 1: rho = 0.1: there is no such key; did you mean mixture.rho?"),
            (
                "[mixture]\nlearning_rate = 1e-6",
                "line 2: mixture.learning_rate = 1e-06: there is no such key; did you mean optimizer.learning_rate?",
            ),
            ("zzz = 1", "line 1: zzz = 1: there is no such key; remove it"),
            (
                "[rollout]\nnum_rollouts = 1",
                "line 2: rollout.num_rollouts = 1: must be a whole number, at least 2 "
                "(N rollouts of a problem; mastery needs at least 2)",
            ),
            ('[rollout]\nnum_rollouts = "8"', 'line 2: rollout.num_rollouts = "8": must be a whole number, at least 2'),
            ("[rollout]\nnum_rollouts = 8.0", "line 2: rollout.num_rollouts = 8.0: must be a whole number"),
            ("[early_stopping]\nenabled = 1", "line 2: early_stopping.enabled = 1: must be true or false"),
            ("[mixture]\nrho = 0", "line 2: mixture.rho = 0: must be a number, above 0 and below 1"),
            ("[mixture]\nrho = 1.0", "line 2: mixture.rho = 1.0: must be a number, above 0 and below 1"),
            ("[mixture]\nrho = nan", "line 2: mixture.rho = nan: must be a number, above 0 and below 1"),
            ("[mixture]\nbatch_size = 0", "line 2: mixture.batch_size = 0: must be a whole number, at least 1"),
            ("[optimizer]\nlearning_rate = inf", "line 2: optimizer.learning_rate = inf: must be a number, above 0"),
            ("[objective]\nclip_low = 1.5", "line 2: objective.clip_low = 1.5: must be a number, above 0 and below 1"),
            ('[objective]\nalgorithm = "ppo"', 'line 2: objective.algorithm = "ppo": must be one of "grpo", "dapo"'),
            ("model = 3", "line 1: model = 3: must be a section of settings"),
            ('[curriculum]\nstages = "accuracy"', "must be a list of tables"),
            (
                '[[curriculum.stages]]\ntype = "accuracy"',
                "line 1: curriculum.stages.0.steps is missing; add it: a whole",
            ),
            ("[curriculum]\nstages = []", "curriculum: stages is empty; a run needs at least one stage"),
        ],
    )
    def test_each_names_key_value_and_rule(self, tmp_path, text, expected):
        told = mistakes(write(tmp_path, text + "\n" + DATA))
        assert told[0].endswith("recipe.toml: 1 mistake in the recipe")
        assert expected in told[1]

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            (
                '{type = "csv", path = "a"}',
                'data.train.0.type = "csv": a source of problems is of type "jsonl" or "lab"',
            ),
            ("{domain = 'x'}", 'data.train.0.type is missing: a source of problems is of type "jsonl" or "lab"'),
            ("3", 'data.train.0 = 3: must be a file name, or a table of type "jsonl" or "lab"'),
            ('{path = "a", limt = 3}', "data.train.0.limt = 3: there is no such key; did you mean data.train.0.limit?"),
            ('{path = "a", kind = "maths"}', 'data.train.0.kind = "maths": must be one of "math", "number", "exact"'),
        ],
    )
    def test_of_sources(self, tmp_path, source, expected):
        assert expected in mistakes(write(tmp_path, f"[data]\ntrain = [{source}]\n"))[1]

    def test_all_are_listed_at_once_with_their_lines(self, tmp_path):
        text = "seed = -1\n[mixture]\nrho = 2\nrh = 1\n[objective]\nupdates_per_batch = 0\n[validation]\nk = 'x'\n"
        told = mistakes(write(tmp_path, text))
        assert told[0].endswith(": 6 mistakes in the recipe")
        keys = [line.split(" = ")[0].split(": ")[-1] for line in told[2:]]
        assert keys == ["seed", "mixture.rho", "mixture.rh", "objective.updates_per_batch", "validation.k"]
        assert told[1].startswith("data.train is empty")

    def test_no_word_of_the_validating_library_reaches_the_user(self, tmp_path):
        text = "seed = 'x'\nfoo = 1\n[mixture]\nrho = 7\n[[curriculum.stages]]\nsteps = 1\n"
        told = " ".join(mistakes(write(tmp_path, text))).lower()
        for word in ("pydantic", "input should", "extra_forbidden", "validation error", "type=", "loc"):
            assert word not in told

    def test_of_syntax_name_file_line_and_column(self, tmp_path):
        told = mistakes(write(tmp_path, "[mixture]\nrho = 0,1\n"))
        assert told[0].endswith(
            "recipe.toml:2:8: not valid TOML: Expected newline or end of document after a statement"
        )
        assert told[1:] == ["rho = 0,1", "^"]

    def test_of_syntax_at_the_end_of_the_file(self, tmp_path):
        assert "recipe.toml:1:9: not valid TOML" in mistakes(write(tmp_path, 'seed = "'))[0]

    def test_a_recipe_that_is_not_there(self, tmp_path):
        assert mistakes("papr")[0] == "papr: there is no such recipe; did you mean the preset paper?"
        assert "give a TOML file or a preset: lab, paper" in mistakes(tmp_path / "none.toml")[0]
        assert "is a folder, not a recipe" in mistakes(tmp_path)[0]


class TestCrossChecks:
    def test_no_training_data(self, tmp_path):
        assert "data.train is empty: a run needs problems" in mistakes(write(tmp_path, "seed = 1\n"))[1]

    def test_more_updates_than_problems(self):
        told = mistakes("lab", "mixture.batch_size=4", "objective.updates_per_batch=5")
        assert len(told) == 2
        assert "a batch of 4 problems cannot be split into more than 4 updates" in told[1]

    def test_a_share_that_rounds_to_nothing(self):
        # 0.03 * 16 = 0.48 rounds to 0; half up, 0.032 * 16 = 0.512 is 1.
        told = mistakes("lab", "mixture.batch_size=16", "mixture.rho=0.03")
        assert "rounds to 0" in told[1]
        assert "set rho to at least 0.032 or mixture.batch_size to at least 17" in told[1]
        load_recipe("lab", ["mixture.batch_size=16", "mixture.rho=0.032"])
        load_recipe("lab", ["mixture.batch_size=17", "mixture.rho=0.03"])

    def test_a_share_that_leaves_nothing_for_correctness(self):
        assert "leaves 0 of a batch of 16" in mistakes("lab", "mixture.rho=0.97")[1]
        load_recipe("lab", ["mixture.rho=0.968"])

    def test_an_empty_share_matters_in_compression_only(self, tmp_path):
        text = DATA + '[[curriculum.stages]]\ntype = "accuracy"\nsteps = 2\n[mixture]\nbatch_size = 1\n'
        assert load_recipe(write(tmp_path, text)).mixture.batch_size == 1
        assert "set it to at least 2" in mistakes("lab", "mixture.batch_size=1")[1]

    def test_loops_of_a_single_stage(self):
        told = mistakes("lab", "curriculum.stages=[{type='compression', steps=3}]", "curriculum.loops=3")
        assert "set loops = 1 and steps = 9" in told[1]

    def test_a_wrong_key_does_not_bring_a_second_mistake(self):
        assert len(mistakes("lab", "mixture.rho=-1", "mixture.batch_size=2")) == 2

    def test_rare_validation_is_allowed_and_noted(self):
        config = load_recipe("lab", ["validation.every=100"])
        assert any("too few for early stopping" in note for note in notes(config))
        assert notes(load_recipe("lab")) == []

    def test_a_coefficient_that_cancels_is_noted(self):
        told = notes(load_recipe("lab", ["penalty.coef=0.5", "objective.algorithm=grpo"]))
        assert any("penalty.coef = 0.5 has no effect" in note for note in told)


class TestRunConfig:
    def test_is_read_back_with_the_folder_as_output(self, tmp_path):
        config = load_recipe("lab", ["output=elsewhere"])
        (tmp_path / "config.json").write_text(json.dumps(config.model_dump(mode="json")))
        read = load_run_config(tmp_path, ["model.threads=2"])
        assert read.output == str(tmp_path)
        assert read.data == config.data
        assert read.model.threads == 2

    def test_of_no_run_and_of_a_torn_file(self, tmp_path):
        with pytest.raises(RunError, match="holds no run"):
            load_run_config(tmp_path)
        (tmp_path / "config.json").write_text("{")
        with pytest.raises(RunError, match="cannot be read"):
            load_run_config(tmp_path)


def test_a_plan_joins_loops_at_an_accuracy_stage():
    plan = load_recipe("lab", ["curriculum.loops=2"]).curriculum.plan()
    assert [(s.loop, s.stage_index, s.type) for s in plan] == [
        (0, 0, "accuracy"),
        (0, 1, "compression"),
        (0, 2, "accuracy"),
        (1, 3, "compression"),
        (1, 4, "accuracy"),
    ]
