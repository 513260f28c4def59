"""The figures of several viewers as a Markdown table."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import median


def table(data: dict[str, Any]) -> str:
    """A table with a row per viewer, and what else was noticed."""
    sizes = [str(size) for size in data["sizes"]]
    about = data["machine"]
    heads = ["viewer", "version", "user interface, compressed"]
    for size in sizes:
        heads += [f"{int(size):,} results: list", "sample"]
    lines = [
        f"{data['measured_at'][:10]}, {about['cpus']} CPUs, Chromium {data['browser']}; "
        f"medians of {data['turns']} turns; the load was {about['load']:.1f}.",
        "",
        f"| {' | '.join(heads)} |",
        f"| --- | --- |{' ---: |' * (len(heads) - 2)}",
    ]
    notes = []
    for row in data["viewers"].values():
        cells = [row["name"], row.get("version", "-"), _kilobytes(row.get("interface_bytes"))]
        for size in sizes:
            figures = row["sizes"].get(size)
            cells += [_time(figures["list_ms"]), _time(figures["sample_ms"])] if figures else ["-", "-"]
        lines.append(f"| {' | '.join(cells)} |")
        notes += _notes(row)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _notes(row: dict[str, Any]) -> list[str]:
    notes = []
    written = {
        int(size): figures["written_bytes"] for size, figures in row["sizes"].items() if figures["written_bytes"]
    }
    if written:
        sizes = ", ".join(f"{size / 1e6:.1f} MB with {count:,} results" for count, size in written.items())
        notes.append(f"- {row['name']}: the report has {sizes}.")
    if hosts := sorted({host for figures in row["sizes"].values() for host in figures["elsewhere"]}):
        notes.append(f"- {row['name']} tried to reach other hosts, with telemetry turned off: `{'`, `'.join(hosts)}`.")
    if "error" in row:
        notes.append(
            f"- {row['name']} was not measured further: {' '.join(row['error'].replace('|', '/').split())[:300]}"
        )
    return notes


def _kilobytes(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / 1e6:.2f} MB" if size >= 1e6 else f"{size / 1000:.0f} kB"


def _time(milliseconds: list[float]) -> str:
    if not milliseconds:
        return "-"
    middle = median(milliseconds)
    return f"{middle / 1000:.1f} s" if middle >= 1000 else f"{middle:.0f} ms"
