"""The final table: base against final, by domain and tier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from sparing.terminal.words import percent, tokens

Row = Mapping[str, Any]

# Columns with intervals beside their values need this much room; below it they go underneath.
_WIDE = 108


def results_table(summary: Row, width: int) -> Table:
    """The table for a terminal of `width` columns: trained domains first, tiers below their domain."""
    wide = width >= _WIDE
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column("domain", no_wrap=True)
    for head in ("base", "final"):
        table.add_column(f"{head}\naccuracy" if not wide else f"{head} accuracy", justify="right")
    table.add_column("change" + (" [95 %]" if wide else "\n[95 %]"), justify="right", no_wrap=True)
    for head in ("base", "final"):
        table.add_column(f"{head}\nlength" if not wide else f"{head} length", justify="right")
    table.add_column("of base" + (" [95 %]" if wide else "\n[95 %]"), justify="right", no_wrap=True)
    table.add_column("short-\nest" if not wide else "shortest", justify="right")
    table.add_column("excess\nremoved" if not wide else "excess removed", justify="right")
    gap = " " if wide else "\n"
    for name, row, is_tier, trained in result_rows(summary):
        fell = row["delta_accuracy_ci"][1] < 0
        rose = row["delta_accuracy_ci"][0] > 0
        shorter = row["relative_length_ci"][1] < 1
        label = Text(f"  {name}" if is_tier else name, style="dim" if is_tier else "bold")
        if not is_tier:
            label.append(gap if wide else "\n", style="not bold")
            label.append("trained" if trained else "unseen", style="not bold cyan" if trained else "not bold dim")
        table.add_row(
            label,
            f"{row['base']['accuracy']:.3f}",
            f"{row['final']['accuracy']:.3f}",
            Text(f"{row['delta_accuracy']:+.3f}{gap}{_signed(row['delta_accuracy_ci'])}", style=_style(rose, fell)),
            tokens(row["base"]["length"]),
            tokens(row["final"]["length"]),
            Text(f"{row['relative_length']:.2f}{gap}{_plain(row['relative_length_ci'])}", style=_style(shorter, False)),
            tokens(row.get("shortest_length")),
            percent(excess_removed(row)),
        )
    return table


def result_lines(summary: Row) -> list[str]:
    """The same as aligned plain text, one line a domain or tier."""
    head = (
        f"{'domain':<14} {'tier':<6} {'use':<8} {'base_acc':>8} {'final_acc':>9} {'change':>7} {'95 %':<17}"
        f" {'base_len':>8} {'final_len':>9} {'of_base':>7} {'95 %':<13} {'shortest':>8} {'excess_removed':>14}"
    )
    lines, domain = [head], ""
    for name, row, is_tier, trained in result_rows(summary):
        domain = domain if is_tier else name
        lines.append(
            f"{domain:<14} {name if is_tier else 'all':<6} {'trained' if trained else 'unseen':<8}"
            f" {row['base']['accuracy']:>8.3f} {row['final']['accuracy']:>9.3f} {row['delta_accuracy']:>+7.3f}"
            f" {_signed(row['delta_accuracy_ci']):<17} {tokens(row['base']['length']):>8}"
            f" {tokens(row['final']['length']):>9} {row['relative_length']:>7.2f} {_plain(row['relative_length_ci']):<13}"
            f" {tokens(row.get('shortest_length')):>8} {percent(excess_removed(row)):>14}"
        )
    return lines


def result_rows(summary: Row) -> Iterator[tuple[str, Row, bool, bool]]:
    """(name, figures, is a tier, trained) of every domain, trained ones first, each before its tiers."""
    domains = sorted(summary.get("domains", {}).items(), key=lambda item: not item[1].get("trained"))
    for name, row in domains:
        trained = bool(row.get("trained"))
        yield name, row, False, trained
        for tier, inner in row.get("tiers", {}).items():
            yield tier, inner, True, trained


def excess_removed(row: Row) -> float | None:
    """(base - final) / (base - shortest) in tokens; None where no shortest length is known or nothing is in excess."""
    if "excess_removed" in row:
        return None if row["excess_removed"] is None else float(row["excess_removed"])
    shortest = row.get("shortest_length")
    if shortest is None or row["base"]["length"] <= shortest:
        return None
    return float((row["base"]["length"] - row["final"]["length"]) / (row["base"]["length"] - shortest))


def _style(good: bool, bad: bool) -> str:
    return "green" if good else "red" if bad else ""


def _signed(pair: Any) -> str:
    return f"[{pair[0]:+.3f}, {pair[1]:+.3f}]"


def _plain(pair: Any) -> str:
    return f"[{pair[0]:.2f}, {pair[1]:.2f}]"
