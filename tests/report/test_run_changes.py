"""What changed between two runs."""

from __future__ import annotations

from typing import Any

from agentv.report.ruler import Change
from agentv.report.run_changes import RecordedSetup, changes_between


def setup(cwd: str = "/one", targets: tuple[str, ...] = ("bot",), **changes: Any) -> RecordedSetup:
    fields: dict[str, Any] = {
        "cwd": cwd,
        "agentv": "1.0",
        "git": {"commit": "a" * 40, "dirty": False},
        "options": {"paths": [cwd], "repeat": None, "threshold": None},
        "suites": [
            {
                "name": "s",
                "path": f"{cwd}/s.yaml",
                "targets": {key: ["judge"] for key in targets},
                "files": [f"{cwd}/s.yaml", f"{cwd}/judges/precision.py"],
            }
        ],
        "digests": {f"{cwd}/s.yaml": "5" * 64, f"{cwd}/judges/precision.py": "6" * 64},
        "configuration": {
            f"{cwd}/c.yaml": {"targets": {**{key: {"model": "m1"} for key in targets}, "judge": {"model": "j1"}}}
        },
        **changes,
    }
    models = fields.pop("models", {})
    hashes = fields.pop("hashes", {"x": "1" * 64, "y": "2" * 64})
    cases = {"s": {("s", name): (sha256, f"{cwd}/s.yaml") for name, sha256 in hashes.items()}}
    return RecordedSetup(fields, targets, cases, models)


def changed(one: RecordedSetup, two: RecordedSetup) -> list[Change]:
    pairs = [(a, b) for a in one.targets for b in two.targets]
    return changes_between(one, two, {("s", "s"): {"x", "y"}}, pairs)


def test_runs_in_two_checkouts_are_the_same():
    assert changed(setup("/one"), setup("/two")) == []


def test_changes_of_the_ruler_come_first():
    cwd = "/two"
    after = setup(
        cwd,
        hashes={"x": "1" * 64, "y": "3" * 64},
        digests={f"{cwd}/s.yaml": "7" * 64, f"{cwd}/judges/precision.py": "8" * 64},
        configuration={f"{cwd}/c.yaml": {"targets": {"bot": {"model": "m2"}, "judge": {"model": "j2"}}}},
        options={"paths": [cwd], "repeat": 3, "threshold": 0.5},
        agentv="1.1",
        git={"commit": "b" * 40, "dirty": True},
        models={"bot": ["m-2026"]},
    )
    assert changed(setup(models={"bot": ["m-2025"]}), after) == [
        Change("case", "case changed: y", True, "2" * 12, "3" * 12),
        Change("file", "judges/precision.py changed", True, "6" * 12, "8" * 12),
        Change("configuration", "configuration of judge 'judge' changed: model", True, "j1", "j2"),
        Change("options", "--threshold changed", True, None, "0.5"),
        Change("configuration", "configuration of target 'bot' changed: model", False, "m1", "m2"),
        Change("target", "model of target 'bot' changed: m-2025 -> m-2026", False, "m-2025", "m-2026"),
        Change("options", "--repeat changed", False, None, "3"),
        Change("version", "agentv changed", False, "1.0", "1.1"),
        Change("git", "commit changed", False, "a" * 12, "b" * 12 + " with changes"),
    ]


def test_another_target_is_not_the_ruler():
    after = setup(targets=("other",), configuration={"/one/c.yaml": {"targets": {"other": {"model": "m2"}}}})
    assert changed(setup(), after) == [
        Change("configuration", "configuration of the target changed: model", False, "m1", "m2"),
        Change("target", "target changed: bot -> other", False, "bot", "other"),
    ]


def test_another_judge_is_the_ruler():
    suites = [{"name": "s", "path": "/one/s.yaml", "targets": {"bot": ["strict"]}, "files": []}]
    assert changed(setup(), setup(suites=suites)) == [
        Change("judge", "judge changed: judge -> strict", True, "judge", "strict")
    ]


def test_run_json_of_another_shape_is_not_compared():
    assert (
        changed(setup(), RecordedSetup({"options": 5, "git": [], "suites": "x", "agentv": 1}, ["bot"]))
        == [Change("options", "--repeat changed", False, None, None)][:0]
    )


def test_other_packages_of_judge_scripts_are_the_ruler():
    def pythons(cwd: str, version: str, **packages: str) -> dict[str, Any]:
        own = {"version": version, "packages": {"shapes": "1.0", **packages}}
        return {f"{cwd}/.venv/bin/python": own, "x @ file:///x.whl": own}

    one = setup(interpreters=pythons("/one", "3.11.7", old="1"))
    two = setup("/two", interpreters=pythons("/two", "3.12.1", shapes="2.0", new="3"))
    text = "changed: Python 3.11.7 -> 3.12.1, new 3 is new, old 1 is gone, shapes 1.0 -> 2.0"
    assert changed(one, two) == [
        Change("packages", f"Python of scripts ({name}) {text}", True)
        for name in (".venv/bin/python", "x @ file:///x.whl")
    ]
    assert changed(one, setup("/two", interpreters=pythons("/two", "3.11.7", old="1"))) == []
