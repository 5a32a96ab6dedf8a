"""The standalone figure: its numbers are the summary's, and it is well-formed SVG."""

import json
import xml.etree.ElementTree as ET

import pytest

from sparing.errors import RunError
from sparing.report.figure import write_figure


def texts(path):
    return [node.text for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_every_domain_with_its_length_and_accuracy_change(make_run, tmp_path):
    run_folder = make_run()
    path = write_figure(run_folder, tmp_path / "figure.svg")
    shown = texts(path)
    for name, row in json.loads((run_folder / "summary.json").read_text())["domains"].items():
        assert any(text.startswith(name) for text in shown)
        cut = round(100 * (1 - row["relative_length"]))
        assert any(str(cut) in text and "%" in text for text in shown)
    assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_an_unfinished_run_has_no_figure(make_run, tmp_path):
    run_folder = make_run()
    (run_folder / "summary.json").unlink()
    with pytest.raises(RunError, match="finish the run"):
        write_figure(run_folder, tmp_path / "figure.svg")
