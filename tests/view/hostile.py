"""Runs whose every field contains text that attacks the page that shows it.

One row for each attack, whose id is the attack; one whose suite, target and error are; and a row `everything`, which
has all of them in all its parts.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from agentv import jsonio

SCRIPT = "globalThis.attacked=1"
ATTACKS: dict[str, str] = {
    "script": f"<script>{SCRIPT}</script>",
    "image": f"<img src=x onerror={SCRIPT}>",
    "end-of-script": f"</script><script>{SCRIPT}</script>",
    "end-of-text": f"</pre></textarea></title></style><script>{SCRIPT}</script>",
    "attribute": f'"><svg onload={SCRIPT}>',
    "single-quote": f"' onmouseover={SCRIPT} autofocus onfocus={SCRIPT} x='",
    "markdown-link": f"[a](javascript:{SCRIPT})",
    "markdown-image": "![a](https://attacker.invalid/pixel.png)",
    "address": f"javascript:{SCRIPT}",
    "frame": f'<iframe srcdoc="<script>parent.{SCRIPT}</script>"></iframe>',
    "comment": f"<!--<script>{SCRIPT}",
    "cdata": f"<![CDATA[<script>{SCRIPT}]]>",
    "entities": "&lt;script&gt; &amp;amp; &#x3c;b&#x3e; &nbsp;",
    "style": "<style>*{display:none!important}</style>",
    "base": '<base href="https://attacker.invalid/">',
    "meta": '<meta http-equiv="refresh" content="0;url=https://attacker.invalid/">',
    "data-link": f"data:text/html,<script>{SCRIPT}</script>",
    "templates": f"{{{{constructor.constructor('{SCRIPT}')()}}}} ${{{SCRIPT}}} <%= {SCRIPT} %> #{{{SCRIPT}}}",
    "math": f'<math><mtext><table><mglyph><style><img src onerror="{SCRIPT}">',
    "form": '<form id="main" name="body"><input name="children"><input id="announcements"></form>',
    "formula": '=HYPERLINK("https://attacker.invalid","a")',
    "proto": "__proto__",
    "constructor": "constructor",
    "has-own": "hasOwnProperty",
    "path": "../../../../etc/passwd",
    "percent": "%00%2e%2e%2f%E0%A4%A 100% +&=?#/~",
    "slashes": "a/b//c\\d",
    "dots": "..",
    "spaces": "  two  spaces  ",
    "long": "wide" * 60,
    "expression": 'score < 0.6 and (suite = "x" or not',
}
"""Attacks whose every character can be seen."""
UNSEEN: dict[str, str] = {
    "separators": "line\u2028paragraph\u2029end",
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;https://attacker.invalid\x07link\x1b]8;;\x07",
    "direction": "safe\u202egnp.exe",
    "zero-width": "pa\u200bss\u200d\ufeff\u2060",
    "null": "before\x00after",
    "controls": "bell\x07 back\x08\x08 return\rover\x7f",
    "tags": "hidden\U000e0041\U000e0042",
    "combining": "z" + "\u0335\u0321" * 40,
    "right-to-left": "שלום \u2067world\u2069",
}
"""Attacks with characters that cannot be seen, or that change others."""
ALL = {**ATTACKS, **UNSEEN}
EVERYTHING = "everything"
BEFORE, AFTER, DAMAGED = "20261101-100000-000000001", "20261102-100000-000000002", "20261103-100000-000000003"
DEEP = 10_000
LONG_LINE = 5 * 2**20


def write_hostile_runs(root: Path) -> None:
    """Write two runs of the same cases, BEFORE and AFTER, and one with lines that cannot be read: DAMAGED."""
    (root / ".git").mkdir(parents=True, exist_ok=True)
    for number, run in enumerate((BEFORE, AFTER, DAMAGED)):
        directory = root / ".agentv" / "runs" / run
        directory.mkdir(parents=True)
        _write_run(directory, number)


def _write_run(directory: Path, number: int) -> None:
    attacks = list(ALL.values())
    rows = [_row(directory.name, name, text, number) for name, text in ALL.items()]
    rows += [_named(rows[0], name, text) for name, text in ALL.items()]
    rows.append(_everything(directory.name, attacks, number))
    cases = [_case(row) for row in rows]
    calls = [call for row in rows for call in _calls(row, attacks)]
    labels = [_label(row) for row in rows[::2]]
    odd = _odd_lines(rows[0]) if directory.name == DAMAGED else []
    torn = '{"torn": "<img src=x onerror=' if directory.name == DAMAGED else ""
    (directory / "results.jsonl").write_text("\n".join([*map(_line, rows), *odd]) + "\n", encoding="utf-8")
    for name, lines in (("cases", cases), ("judge_calls", calls), ("labels", labels)):
        text = "".join(_line(line) + "\n" for line in lines)
        (directory / f"{name}.jsonl").write_text(text + torn, encoding="utf-8")
    (directory / "run.json").write_text(json.dumps(_manifest(directory.name, number), indent=1), encoding="utf-8")


def _odd_lines(row: dict[str, Any]) -> list[str]:
    """Lines that are damaged or extreme."""
    score = f'"score":{row["score"]}'
    return [
        _line({**row, "eval_id": "huge-number"}).replace(score, '"score":1e400', 1),
        _line({**row, "eval_id": "deep", "metadata": {}}).replace('"metadata":{}', f'"metadata":{_deep()}'),
        _line({**row, "eval_id": "huge-value", "metadata": {"huge": 0.5}}).replace('"huge":0.5', '"huge":1e400'),
        _line({**row, "eval_id": "long-line", "candidate_answer": "<b>" + "x" * LONG_LINE}),
        _line({**row, "eval_id": "not-a-number"}).replace(score, '"score":NaN', 1),
        _line({**row, "eval_id": "half \ud83d of a face"}),
        '{"eval_id": "torn", "suite": "',
        "<script>globalThis.attacked=1</script>",
        "\x00\x00\x00",
        "[1, 2]",
    ]


def _line(value: Any) -> str:
    # As agentv writes lines, because it finds them by their first bytes. Lone surrogates are escaped.
    line = jsonio.strict_line(value)
    return json.dumps(value, separators=(",", ":")) if line is None else line


def _deep() -> str:
    return '{"a":' * DEEP + "1" + "}" * DEEP


def _row(run: str, name: str, text: str, number: int) -> dict[str, Any]:
    score = 0.25 if number == 0 else (len(name) % 4) / 4
    judged = _result(text, text, text, score, [text])
    return {
        "run_id": run,
        "eval_id": text,
        "suite": "hostile",
        "target": "target",
        "attempt": 1,
        "score": score,
        "verdict": "fail",
        "error": None,
        "candidate_answer": text,
        "output_messages": [{"role": "assistant", "content": text}],
        "hits": [text],
        "misses": [text],
        "reasoning": text,
        "evaluator_results": [judged],
        "trace_summary": {"tool_calls_by_name": {text: 1}},
        "cost_usd": 0.001,
        "duration_ms": 12,
        "started_at": "2026-11-01T10:00:00Z",
        "metadata": {text: text, "attack": text},
        "threshold": 0.8,
        "model": text,
        "warnings": [text],
    }


def _named(row: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    error = {"stage": "target", "message": text}
    names = {"eval_id": f"named-{name}", "suite": text, "target": text, "candidate_answer": f"answer {name}"}
    return {**row, **names, "score": 0.0, "error": error, "evaluator_results": [], "metadata": {}}


def _result(name: str, kind: str, text: str, score: float, texts: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "score": score,
        "weight": 1.0,
        "verdict": "fail",
        "required": False,
        "error": None,
        "warnings": [text],
        "hits": texts,
        "misses": texts,
        "reasoning": " | ".join(texts),
        "details": {"checks": [{"id": one, "satisfied": False, "reasoning": one, "weight": 1} for one in texts]}
        | {one: one for one in texts},
        "judge": {"target": text, "call_count": 1},
    }


def _everything(run: str, attacks: list[str], number: int) -> dict[str, Any]:
    row = _row(run, EVERYTHING, EVERYTHING, number)
    calls = [{"tool": one, "input": {one: one}, "output": one, "id": one} for one in attacks]
    return {
        **row,
        "candidate_answer": "\n".join(attacks),
        "output_messages": [
            {"role": "assistant", "content": "\n".join(attacks[:5]), "name": attacks[0], "tool_calls": calls},
            {
                "role": attacks[0],
                "content": [{"type": "text", "value": attacks[1]}, {"type": attacks[2], attacks[3]: 1}],
            },
            {"role": "assistant", "content": "\n".join(attacks)},
        ],
        "evaluator_results": [
            _result("judge", "llm_judge", attacks[0], row["score"], attacks),
            {
                **_result("group", "composite", attacks[1], 0.5, []),
                "evaluator_results": [_result(one, one, one, 0.5, [one]) for one in attacks],
            },
        ],
        "metadata": {one: one for one in attacks},
        "hits": attacks,
        "misses": attacks,
        "warnings": attacks,
    }


def _case(row: dict[str, Any]) -> dict[str, Any]:
    text = row["candidate_answer"]
    return {
        "suite": row["suite"],
        "eval_id": row["eval_id"],
        "input_messages": [{"role": "user", "content": text, "name": text}],
        "expected_outcome": text,
        "expected_messages": [{"role": "assistant", "content": text}],
        "reference_answer": text,
        "threshold": 0.8,
        "evaluators": [{"name": "judge", "type": "llm_judge", "options": {text[:40]: text, "script": [text]}}],
        "metadata": row["metadata"],
        "tags": list(row["metadata"]),
        "sha256": hashlib.sha256(_line(row["eval_id"]).encode()).hexdigest(),
        "file": text.split("\n")[0],
        "line": 1,
    }


def _calls(row: dict[str, Any], attacks: list[str]) -> list[dict[str, Any]]:
    texts = attacks if row["eval_id"] == EVERYTHING else [row["eval_id"]]
    key = {
        "suite": row["suite"],
        "eval_id": row["eval_id"],
        "case_target": row["target"],
        "case_attempt": row["attempt"],
    }
    return [
        {
            **key,
            "evaluator": "judge" if row["eval_id"] == EVERYTHING else text,
            "index": number,
            "target": text,
            "status": "ok" if number % 3 else text,
            "code": text,
            "eval_case_id": text,
            "attempt": 1,
            "started_at": "2026-11-01T10:00:01Z",
            "duration_ms": 3.0,
            "model": text,
            "finish_reason": text,
            "question": text,
            "system_prompt": text,
            "messages": [{"role": text, "content": text}],
            "options": {text: text},
            "reply": {"rawText": text, text: [text], "outputMessages": [{"role": "assistant", "content": text}]},
            "error": None if number % 3 else text,
        }
        for number, text in enumerate(texts, 1)
    ]


def _label(row: dict[str, Any]) -> dict[str, Any]:
    text = row["candidate_answer"]
    return {
        **{name: row[name] for name in ("suite", "eval_id", "target", "attempt")},
        "label": "fail",
        "note": text,
        "by": text,
        "at": "2026-11-01T11:00:00Z",
        "answer_sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _manifest(run: str, number: int) -> dict[str, Any]:
    texts = list(ATTACKS.values())
    return {
        "run_id": run,
        "name": texts[number + 1],
        "experiment": f'"><svg onload={SCRIPT}>',
        "note": "\n".join(texts),
        "status": "finished",
        "started_at": f"2026-11-0{number + 1}T10:00:00Z",
        "finished_at": f"2026-11-0{number + 1}T10:00:09Z",
        "agentv": f"0.1.0<script>{SCRIPT}</script>",
        "python": texts[0],
        "platform": texts[1],
        "cwd": f"/home/{texts[0]}",
        "git": {"commit": texts[0], "branch": texts[1], "dirty": True},
        "options": {"paths": texts, "note": texts[0]},
        "total": 2 * len(ALL) + 1,
        "suites": [
            {"path": text, "name": text, "cases": 1, "targets": {text: [text]}, "files": [text]} for text in texts
        ],
        "digests": {text: hashlib.sha256(f"{text}{number}".encode()).hexdigest() for text in texts},
        "configuration": {text: {"sha256": f"{text}{number}", "content": text} for text in texts},
        "summary": {"total": 2 * len(ALL) + 1, "passed": 0, "failed": 1, "notes": texts},
        "budget": {"spent_usd": 0.1, "judge_calls": 3, "exhausted": texts[0]},
    }
