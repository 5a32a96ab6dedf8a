import tomllib

from sparing.recipe.toml_file import key_lines

TEXT = """\
seed = 1

[model]  # a comment
path = "x"
"quoted" = 2
a . b = 3

[[curriculum.stages]]
steps = 1
[[curriculum.stages]]
steps = 2
[curriculum.stages.inner]
deep = 4
"""


def test_lines_of_tables_arrays_dotted_and_quoted_keys():
    tomllib.loads(TEXT)
    lines = key_lines(TEXT)
    assert lines[("seed",)] == 1
    assert lines[("model",)] == 3
    assert lines[("model", "path")] == 4
    assert lines[("model", "quoted")] == 5
    assert lines[("model", "a", "b")] == 6
    assert lines[("curriculum", "stages", 0, "steps")] == 9
    assert lines[("curriculum", "stages", 1, "steps")] == 11
    assert lines[("curriculum", "stages", 1, "inner", "deep")] == 13
