"""Masking: the time to search 1 MB of text for five secrets, relative to encoding the same text as JSON."""

from __future__ import annotations

import json
import random
import statistics
import string
import time
from collections.abc import Callable

from agentv.redact import Redactor
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "masking"
_LETTERS = string.ascii_letters + string.digits


def measure(options: Options) -> Report:
    choose = random.Random(5)
    secrets = [f"sk-{''.join(choose.choices(_LETTERS + '_-', k=length))}" for length in (20, 35, 40, 90, 100)]
    size, turns = options.pick(1_000_000, 10_000), options.pick(7, 1)
    words = ["".join(choose.choices(string.ascii_lowercase, k=choose.randint(2, 9))) for _ in range(3000)]
    prose = "\n".join(" ".join(choose.choices(words, k=14)) for _ in range(size // 90))[:size]
    texts = {
        "prose": (prose, 5.0),
        "prose in JSON": (json.dumps(prose), 15.0),
        "HTML": ("<p>a &amp; b &lt;c&gt; &#39;x&#39; &nbsp;" * (size // 40), 30.0),
        "URLs": ("https://x.y/a%20b%2Fc?d=1&e=2%3A " * (size // 34), 40.0),
        "nothing but escapes": ("%41" * (size // 3), 120.0),
    }
    redactor = Redactor(secrets)
    redactor.text(f"%41{secrets[0]}")
    baseline = _seconds(lambda: json.dumps(prose, ensure_ascii=False), turns)
    seconds = {name: _seconds(lambda text=text: redactor.text(text), turns) for name, (text, _) in texts.items()}
    figures = [
        Figure(f"mask {name} / encode prose as JSON, CPU", seconds[name] / baseline, goal=goal)
        for name, (_, goal) in texts.items()
    ]
    figures += [Figure(f"mask 1 MB of {name}", value * 1000, "ms") for name, value in seconds.items()]
    return Report(NAME, figures, details={"size": size, "turns": turns, "cpu_s": seconds, "json_cpu_s": baseline})


def _seconds(work: Callable[[], object], turns: int) -> float:
    times = []
    for _ in range(turns):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return max(statistics.median(times), 1e-9)
