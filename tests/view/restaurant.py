"""A small project for the viewer: conversations, and a suite with two prompts and two targets, run twice offline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.view.bookshop import Bookshop
from tests.view.opening import agentv

RUNS = {"before": "20261116-120000-00000000b", "after": "20261117-120000-00000000c"}
AFTER = f"#/run/{RUNS['after']}"
BOOKING = f"{AFTER}/case/booking/change-a-booking/host/1"
_STARTED = {"before": "2026-11-10T12:00:00", "after": "2026-11-14T12:00:00"}
_CASES = {"menu": "Italy", "wine": "France", "soup": "Spain"}


def make_restaurant(root: Path) -> Bookshop:
    """Write the project and run it twice. In the second run, the slow target does not know the menu any more."""
    (root / ".git").mkdir(parents=True)
    (root / "booking.yaml").write_text(json.dumps(_BOOKING), encoding="utf-8")
    (root / "menu.yaml").write_text(json.dumps(_MENU), encoding="utf-8")
    for name, run in RUNS.items():
        (root / "agentv.config.yaml").write_text(json.dumps(_config(is_good=name == "before")), encoding="utf-8")
        place = root / ".agentv" / "runs" / run
        suites = ("menu.yaml", "booking.yaml", "--target", "host", "--target", "waiter", "--repeat", "2")
        done = agentv(root, "eval", *suites, "--name", name, "--quiet", "--run-dir", str(place))
        assert done.returncode == 1, done.stderr
        _set_times(place, _STARTED[name])
    return Bookshop(root, RUNS)


def _set_times(directory: Path, started: str) -> None:
    """Fixed times, so that pages look the same every time."""
    for name in ("run.json", "results.jsonl", "judge_calls.jsonl"):
        text = (directory / name).read_text(encoding="utf-8")
        text = re.sub(r'("(?:started|finished)_at": ?)"[^"]*"', rf'\1"{started}+00:00"', text)
        text = re.sub(r'("(?:duration|waited)_ms": ?)[\d.e+-]+', r"\g<1>120.0", text)
        (directory / name).write_text(text, encoding="utf-8")


_BOOKING: dict[str, Any] = {
    "description": "Conversations at the door",
    "evalcases": [
        {
            "id": "change-a-booking",
            "turns": [
                {
                    "input": [
                        {"role": "system", "content": "You are the host of a restaurant."},
                        {"role": "user", "content": "Please book a table for two at 7 pm."},
                    ],
                    "evaluators": [{"type": "contains", "value": "booked"}],
                },
                {"input": "Thanks! Is there a garden?"},
                {
                    "input": "Make it four, please.",
                    "reference_answer": "Changed to four people at 7 pm.",
                    "evaluators": [
                        {"type": "equals"},
                        {"type": "icontains", "value": "anything else"},
                        {"name": "polite", "type": "llm_judge", "prompt": "Is this polite? {{ candidate_answer }}"},
                    ],
                },
            ],
            "evaluators": [{"name": "time", "type": "contains", "value": "7 pm"}],
        },
        {
            "id": "worst-turn",
            "aggregation": "min",
            "turns": [
                {
                    "input": "Please book a table for two at 7 pm.",
                    "evaluators": [{"type": "contains", "value": "booked"}],
                },
                {"input": "Make it four, please.", "evaluators": [{"type": "contains", "value": "six"}]},
            ],
        },
        {
            "id": "lost-umbrella",
            "user": {
                "target": "guest",
                "persona": "You left a red umbrella here yesterday. You give its colour only when asked for it.",
                "max_turns": 4,
                "stop_when": "the umbrella is found",
            },
            "evaluators": [{"type": "contains", "value": "red umbrella"}],
        },
    ],
}
_MENU: dict[str, Any] = {
    "prompts": [
        {"id": "plain", "template": "What is the dish of {{ country }}?"},
        {"id": "one-word", "template": "Answer in one word.\nWhat is the dish of {{ country }}?\n"},
    ],
    "execution": {
        "evaluators": [
            {"type": "equals", "value": "{{ country }}!"},
            {"name": "polite", "type": "llm_judge", "weight": 0.5, "prompt": "Is this polite? {{ candidate_answer }}"},
        ]
    },
    "evalcases": [{"id": name, "vars": {"country": country}} for name, country in _CASES.items()],
}


def _config(*, is_good: bool) -> dict[str, Any]:
    talk = [
        {"match": "(?s)umbrella.*red", "response": "We found your red umbrella."},
        {"match": "umbrella", "response": "What colour is it?"},
        {"match": "(?s)table for two.*[Mm]ake it four", "response": "Changed to four people at 7 pm."},
        {"match": "(?s)table for two.*garden", "response": "Yes, it is open until 10 pm."},
        {"match": "table for two", "response": "A table for two at 7 pm is booked."},
    ]
    short = [{"match": f"(?s)one word.*{country}", "response": f"{country}!"} for country in _CASES.values()]
    known = [{"match": country, "response": f"{country}!"} for country in _CASES.values()]
    grade = {"score": 0.7, "hits": ["friendly"], "misses": ["too short"], "reasoning": "Friendly, but short."}
    asked = [
        {"match": "found your", "response": "[[END OF CONVERSATION]]"},
        {"match": "What colour", "response": "It is red."},
    ]
    return {
        "targets": {
            "host": {"provider": "mock", "rules": [*talk, *short], "response": "Ask the waiter."},
            "waiter": {"provider": "mock", "rules": [*talk, *(known if is_good else [])], "response": "I am new."},
            "guest": {"provider": "mock", "rules": asked, "response": "I lost my umbrella."},
            "judge": {"provider": "mock", "response": json.dumps(grade)},
        },
        "defaults": {"target": "host", "judge_target": "judge"},
    }
