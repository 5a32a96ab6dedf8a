"""The final table: base against final, by domain and tier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from sparing.terminal.words import percent, tokens

Row = Mapping[str, Any]

# Columns with intervals beside their values need this much room; below it they go underneath, with two digits.
_WIDE = 112


def results_table(summary: Row, width: int) -> Table:
    """The table for a terminal of `width` columns: trained domains first, tiers below their domain."""
    wide = width >= _WIDE
    gap, digits = (" ", 3) if wide else ("\n", 2)
    table = Table(box=None, padding=(0, 2 if wide else 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("domain")
    for head in ("accuracy\nbase → final", f"change{gap}[95 %]", "length\nbase → final", f"of base{gap}[95 %]"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("shortest", justify="right", no_wrap=True)
    table.add_column("excess\ngone", justify="right", no_wrap=True)
    for name, row, is_tier, trained in result_rows(summary):
        base, final = row["base"], row["final"]
        delta, relative = row["delta_accuracy_ci"], row["relative_length_ci"]
        table.add_row(
            _label(name, gap, is_tier=is_tier, trained=trained),
            f"{base['accuracy']:.{digits}f} → {final['accuracy']:.{digits}f}",
            Text(
                f"{row['delta_accuracy']:+.{digits}f}{gap}{_signed(delta, digits)}",
                style=_style(good=delta[0] > 0, bad=delta[1] < 0),
            ),
            f"{tokens(base['length'])} → {tokens(final['length'])}",
            Text(
                f"{row['relative_length']:.2f}{gap}{_plain(relative)}",
                style=_style(good=relative[1] < 1, bad=False),
            ),
            tokens(row.get("shortest_length")),
            percent(excess_removed(row)),
        )
    return table


def _label(name: str, gap: str, *, is_tier: bool, trained: bool) -> Text:
    if is_tier:
        return Text(f"  {name}", style="dim")
    label = Text(name, style="bold")
    label.append(f"{gap}trained" if trained else f"{gap}unseen", style="not bold cyan" if trained else "not bold dim")
    return label


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
            f" {_signed(row['delta_accuracy_ci'], 3):<17} {tokens(row['base']['length']):>8}"
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
        tiers = row.get("tiers", {})
        for tier, inner in tiers.items() if len(tiers) > 1 else ():  # A lone tier only repeats its domain.
            yield tier, inner, True, trained


def excess_removed(row: Row) -> float | None:
    """(base - final) / (base - shortest) in tokens; None where no shortest length is known or nothing is in excess."""
    if "excess_removed" in row:
        return None if row["excess_removed"] is None else float(row["excess_removed"])
    shortest = row.get("shortest_length")
    if shortest is None or row["base"]["length"] <= shortest:
        return None
    return float((row["base"]["length"] - row["final"]["length"]) / (row["base"]["length"] - shortest))


def _style(*, good: bool, bad: bool) -> str:
    return "green" if good else "red" if bad else ""


def _signed(pair: Any, digits: int) -> str:
    return f"[{pair[0]:+.{digits}f}, {pair[1]:+.{digits}f}]"


def _plain(pair: Any) -> str:
    return f"[{pair[0]:.2f}, {pair[1]:.2f}]"
