"""The page is parsed as a browser would, and its numbers are compared with the files they come from."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sparing.errors import RunError
from sparing.report import write_report

MakeRun = Callable[..., Path]


class Page(HTMLParser):
    """Collects text by section, tables as rows of cells, and every attribute; fails on unbalanced tags."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.rows: list[list[str]] = []
        self.ids: list[str] = []
        self.headings: list[str] = []
        self.scripts: list[str] = []
        self.visible: list[str] = []
        self.unlabelled_images = 0
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.attributes += [(tag, key, value) for key, value in values.items()]
        if "id" in values:
            self.ids.append(values["id"])
        if values.get("role") == "img" and not values.get("aria-label"):
            self.unlabelled_images += 1
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")
        if tag == "script":
            self.scripts.append("")
        if tag != "meta":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack and self.stack[-1] == tag, f"</{tag}> closes {self.stack[-3:]}"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.stack:
            return
        if "script" in self.stack:
            self.scripts[-1] += data
            return
        self.visible.append(data)
        if self.stack and self.rows and ("td" in self.stack or "th" in self.stack):
            self.rows[-1][-1] += data
        if any(tag in self.stack for tag in ("h1", "h2", "h3")):
            self.headings[-1] += data

    @property
    def text(self) -> str:
        return plain("".join(self.visible))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u2212", "-")


def page_of(folder: Path) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


def edit_summary(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    change(summary)
    path.write_text(json.dumps(summary))


def test_writes_one_file_beside_the_run_and_nothing_else(make_run: MakeRun) -> None:
    folder = make_run()
    before = {path.name for path in folder.iterdir()}
    assert write_report(folder) == folder / "report.html"
    assert {path.name for path in folder.iterdir()} == before | {"report.html"}


def test_loads_nothing_from_anywhere(make_run: MakeRun) -> None:
    text = write_report(make_run()).read_text(encoding="utf-8")
    page = Page(text)
    assert [value for _, key, value in page.attributes if key in ("src", "href", "srcset", "action", "data")] == []
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest|import\(", text)
    assert len(text) < 400_000


def test_names_language_title_and_viewport(make_run: MakeRun) -> None:
    text = write_report(make_run("my-run")).read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert ("html", "lang", "en") in page.attributes
    assert ("meta", "content", "width=device-width, initial-scale=1") in page.attributes
    assert "<title>sparing: my-run</title>" in text


def test_every_figure_has_a_text_alternative_and_ids_are_unique(make_run: MakeRun) -> None:
    page = page_of(make_run(loops=2))
    assert page.unlabelled_images == 0
    assert sum(1 for _, key, value in page.attributes if (key, value) == ("role", "img")) > 30
    assert len(page.ids) == len(set(page.ids))
    assert all(value == "true" for tag, key, value in page.attributes if tag == "svg" and key == "aria-hidden")


def test_table_holds_the_numbers_of_the_summary(make_run: MakeRun) -> None:
    folder = make_run()
    domains = json.loads((folder / "summary.json").read_text())["domains"]
    rows = [[plain(cell) for cell in row] for row in page_of(folder).rows]
    for name, domain in domains.items():
        at = next(i for i, row in enumerate(rows) if row[0] == name and len(row) == 11)
        for row, values in zip(rows[at:], [domain, *domain["tiers"].values()], strict=False):
            assert float(row[1]) == pytest.approx(values["base"]["accuracy"], abs=5.1e-4)
            assert float(row[2]) == pytest.approx(values["final"]["accuracy"], abs=5.1e-4)
            assert float(row[3]) == pytest.approx(values["delta_accuracy"], abs=5.1e-4)
            low, high = map(float, row[4].split(" to "))
            assert [low, high] == pytest.approx(values["delta_accuracy_ci"], abs=5.1e-4)
            assert float(row[5]) == pytest.approx(values["base"]["length"], abs=0.051)
            assert float(row[6]) == pytest.approx(values["final"]["length"], abs=0.051)
            assert float(row[7].rstrip(" %")) == pytest.approx(100 * (values["relative_length"] - 1), abs=0.51)
            low, high = (float(end.rstrip(" %")) for end in row[8].split(" to "))
            assert [low, high] == pytest.approx([100 * (r - 1) for r in values["relative_length_ci"]], abs=0.51)
            assert float(row[9]) == pytest.approx(values["shortest_length"], abs=0.051)
            assert float(row[10].rstrip(" %")) == pytest.approx(100 * values["excess_removed"], abs=0.51)


def test_validation_table_and_cursor_hold_the_numbers_of_the_file(make_run: MakeRun) -> None:
    folder = make_run()
    rows = [json.loads(line) for line in (folder / "validation.jsonl").read_text().splitlines()]
    page = page_of(folder)
    shown = [row for row in page.rows if len(row) == 10 and row[0] in ("accuracy", "compression")]
    assert [(int(row[1]), float(row[2]), float(row[4])) for row in shown] == [
        (row["step"], round(row["accuracy"], 3), round(row["length"], 1)) for row in rows
    ]
    curves = json.loads(page.scripts[0])["panels"]
    assert curves["validation-length"][0]["x"] == [row["step"] for row in rows]
    assert curves["validation-length"][0]["y"] == pytest.approx([row["length"] for row in rows], rel=1e-3)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert curves["grad_norm"][0]["y"] == pytest.approx([row["grad_norm"] for row in metrics], rel=1e-3)
    assert curves["rho"][0]["y"][0] is None


def test_headline_says_what_the_summary_says(make_run: MakeRun) -> None:
    folder = make_run()

    def set_numbers(summary: dict[str, Any]) -> None:
        arithmetic = summary["domains"]["arithmetic"]
        arithmetic |= {"relative_length": 0.29, "relative_length_ci": [0.26, 0.32]}
        arithmetic |= {"delta_accuracy": 0.02, "delta_accuracy_ci": [-0.01, 0.05]}
        arithmetic["base"]["accuracy"], arithmetic["final"]["accuracy"] = 0.93, 0.95
        others = [domain for name, domain in summary["domains"].items() if name != "arithmetic"]
        for domain, relative in zip(others, (0.35, 0.4, 0.5, 0.6, 0.45), strict=True):
            domain |= {"relative_length": relative, "relative_length_ci": [relative - 0.05, relative + 0.05]}
            domain |= {"delta_accuracy": 0.0, "delta_accuracy_ci": [-0.02, 0.02]}

    edit_summary(folder, set_numbers)
    page = page_of(folder)
    assert plain(page.headings[0]) == "Responses on arithmetic are 71 % shorter at accuracy 0.93 → 0.95."
    assert "(-71 %, 95 % interval -74 % to -68 %)" in page.text
    assert "shows no significant change (change +0.020, 95 % interval -0.010 to +0.050)" in page.text
    assert "5 unseen domains are 40 % to 65 % shorter." in page.text
    assert "Accuracy shows no significant change on any of them." in page.text


def test_headline_admits_a_loss_of_accuracy(make_run: MakeRun) -> None:
    folder = make_run()

    def lose(summary: dict[str, Any]) -> None:
        summary["domains"]["arithmetic"] |= {"delta_accuracy": -0.08, "delta_accuracy_ci": [-0.11, -0.05]}
        for name, domain in summary["domains"].items():
            if name != "arithmetic":
                domain |= {"delta_accuracy": 0.0, "delta_accuracy_ci": [-0.02, 0.02]}
        summary["domains"]["logic"] |= {"delta_accuracy": -0.04, "delta_accuracy_ci": [-0.07, -0.01]}

    edit_summary(folder, lose)
    page = page_of(folder)
    assert "a significant loss" in page.headings[0]
    assert "accuracy fell (change -0.080, 95 % interval -0.110 to -0.050)" in page.text
    assert "Accuracy fell significantly on logic (-0.040); no significant change on the other 4." in page.text
    assert sum(1 for _, key, value in page.attributes if (key, value) == ("class", "lead loss")) == 2


def test_headline_admits_that_nothing_got_shorter(make_run: MakeRun) -> None:
    folder = make_run()

    def lengthen(summary: dict[str, Any]) -> None:
        for domain in summary["domains"].values():
            domain |= {"relative_length": 0.98, "relative_length_ci": [0.9, 1.06]}

    edit_summary(folder, lengthen)
    page = page_of(folder)
    assert "did not get reliably shorter" in page.headings[0]
    assert "none of the 5 unseen domains got reliably shorter" in page.text


def test_single_unseen_domain_is_named(make_run: MakeRun) -> None:
    folder = make_run(domains=("arithmetic", "code"))

    def keep(summary: dict[str, Any]) -> None:
        summary["domains"]["code"] |= {"relative_length": 0.99, "relative_length_ci": [0.8, 1.2]}
        summary["domains"]["code"]["tiers"].pop("hard")

    edit_summary(folder, keep)
    page = page_of(folder)
    assert "Without being trained on, code did not get reliably shorter:" in page.text
    assert [row[0] for row in page.rows if len(row) == 11][-1] == "code (easy)", "one tier needs no row of its own"


def test_run_whose_gate_never_opened_says_so(make_run: MakeRun) -> None:
    folder = make_run()
    assert "No response was penalised" not in page_of(folder).text
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    idle = [{**row, "penalty_fired_share": 0.0, "mastered_share": 0.0} for row in rows]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in idle))
    text = page_of(folder).text
    assert "No response was penalised in any of the 50 compression steps: no problem was mastered." in text


def test_rollback_is_told_and_its_validations_are_not_the_result(make_run: MakeRun) -> None:
    folder = make_run()
    page = page_of(folder)
    assert (
        "The compression stage was stopped at step 60 and went back to the checkpoint of step 50; the 10 steps after it were "
        "thrown away." in page.text
    )
    assert "accuracy declined in 2 validations in a row while length fell" in page.text
    assert "stopped 60, kept 50" in page.text
    decision = json.loads((folder / "decisions.jsonl").read_text().splitlines()[1])
    rows = [row for row in page.rows if len(row) == 4 and row[0].isdigit()]
    assert [int(row[0]) for row in rows] == list(range(10, 65, 5))
    assert [float(row[1]) for row in rows] == pytest.approx(decision["evidence"]["accuracy"], abs=5.1e-4)


def test_run_that_ends_with_a_rollback_is_told_by_the_kept_weights(make_run: MakeRun) -> None:
    folder = make_run(tests=False, until=60)
    rows = [json.loads(line) for line in (folder / "validation.jsonl").read_text().splitlines()]
    kept = next(row for row in rows if row["step"] == 50)
    without_repeat = [row for row in rows if "weights_step" not in row]
    (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*without_repeat, kept]))
    page = page_of(folder)
    assert plain(page.headings[0]).startswith("By step 50,")
    assert f"to {kept['accuracy']:.3f}" in page.text


def test_incomplete_run_says_so_and_shows_what_there_is(make_run: MakeRun) -> None:
    page = page_of(make_run(until=37))
    assert "This run is incomplete: 37 steps of at most 100 recorded" in page.text
    assert plain(page.headings[0]).startswith("By step 35, validation responses went from")
    assert "Base against final" not in page.headings
    assert "How long the responses are" in page.headings


def test_run_that_has_only_begun(make_run: MakeRun) -> None:
    folder = make_run(until=0)
    for name in ("metrics.jsonl", "validation.jsonl", "decisions.jsonl", "evals/base.jsonl"):
        (folder / name).unlink()
    page = page_of(folder)
    assert "Nothing has been validated yet." in page.headings
    assert "No step has been recorded yet." in page.text


def test_base_validation_alone(make_run: MakeRun) -> None:
    page = page_of(make_run(until=0))
    assert "before any training" in page.headings[0]


def test_run_without_test_problems(make_run: MakeRun) -> None:
    page = page_of(make_run(tests=False))
    assert "No test set was given" in page.text
    assert "incomplete" not in page.text
    assert "Base against final" not in page.headings


def test_torn_line_is_left_out_and_named(make_run: MakeRun) -> None:
    folder = make_run(until=37)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines) + lines[-1][:40])
    page = page_of(folder)
    assert "metrics.jsonl line 38 is torn" in page.text
    assert len(json.loads(page.scripts[0])["panels"]["length"][0]["x"]) == 37


def test_bytes_that_are_no_text_are_a_torn_line_too(make_run: MakeRun) -> None:
    folder = make_run(until=37)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 38, "stage": "\xff\xfe')
    assert "metrics.jsonl line 38 is torn" in page_of(folder).text


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("x"), lambda path: path.mkdir()])
def test_what_is_no_run_folder_is_refused_with_a_remedy(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "nothing"
    make(path)
    with pytest.raises(RunError, match=r"nothing.*(the run folder that|give the folder set as)"):
        write_report(path)


def test_broken_config_is_named(make_run: MakeRun) -> None:
    folder = make_run()
    (folder / "config.json").write_text('{"seed": ')
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        write_report(folder)


def test_hostile_text_stays_text(make_run: MakeRun) -> None:
    folder = make_run()
    attack = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"quoted\" 'single' & </pre></main>"
    for which in ("base", "final"):
        path = folder / "evals" / f"{which}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["question"] = row["answer"] = attack
            row["texts"] = [f"{attack} wait {attack} </think> {attack}"] * 4
            row["domain"] = {"logic": attack}.get(row["domain"], row["domain"])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    edit_summary(folder, lambda summary: summary["domains"].update({attack: summary["domains"].pop("logic")}))
    config = json.loads((folder / "config.json").read_text())
    config["model"]["path"] = attack
    (folder / "config.json").write_text(json.dumps(config))
    clean = len(page_of(make_run("clean")).scripts)
    page = page_of(folder)
    assert len(page.scripts) == clean == 2
    assert not any(tag == "img" or key.startswith("on") for tag, key, _ in page.attributes)
    assert page.text.count(attack) > 10


def test_long_run_with_many_domains_stays_light_and_quick(make_run: MakeRun) -> None:
    folder = make_run(scale=25, domains=["arithmetic", *(f"domain-{i}" for i in range(19))])
    started = time.process_time()
    page = page_of(folder)
    assert time.process_time() - started < 10
    assert (folder / "report.html").stat().st_size < 1_500_000
    assert "19 unseen domains" in page.text
    assert "Long runs are drawn as means" in page.text


def test_two_loops_name_their_stages(make_run: MakeRun) -> None:
    page = page_of(make_run(loops=2))
    assert "compression, loop 1" in page.text and "compression, loop 2" in page.text


def test_equal_folders_give_equal_pages(make_run: MakeRun) -> None:
    first, second = make_run("a/run"), make_run("b/run")
    assert write_report(first).read_bytes() == write_report(second).read_bytes()


def test_old_page_survives_a_failure(make_run: MakeRun) -> None:
    folder = make_run()
    before = write_report(folder).read_bytes()
    (folder / "config.json").write_text("[]")
    with pytest.raises(RunError, match="JSON object"):
        write_report(folder)
    assert (folder / "report.html").read_bytes() == before
