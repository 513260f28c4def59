"""`agentv report --format html`: what is in the file, and what is not."""

from __future__ import annotations

import base64
import getpass
import hashlib
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import threading
import tracemalloc
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.large_run import Shape, write_large_run
from playwright.sync_api import Browser

from agentv import __version__
from agentv.record.run_dir import RunDirectory
from agentv.view import assets
from agentv.view import file as file_module
from agentv.view.addresses import page_address
from agentv.view.file import RunFile
from agentv.view.file_rows import estimated_size
from agentv.view.library import Library
from tests.conftest import Project
from tests.view.bookshop import Bookshop
from tests.view.decoding import Decoded
from tests.view.opening import AGENTV, Files, Opened, agentv, environment

RECORD = ("results.jsonl", "judge_calls.jsonl", "cases.jsonl")
LOADS = re.compile(r"\b(?:src|href|action|srcset|poster|data|ping)=|<(?:link|iframe|object|embed|img|form|base)\b")


def report(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return agentv(root, *arguments)


def written_by(root: Path, run: str, baseline: str | None = None, **options: object) -> Decoded:
    """The file of a run, from this process."""
    library = Library(root, [run] if baseline is None else [run, baseline])
    return Decoded("".join(RunFile(library, run, baseline, **options)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(written: Files) -> Decoded:
    """The file of a run with its baseline and all details."""
    return Decoded.read(written.path("new-prompt", "baseline"))


# -- contents


def test_file_refers_to_nothing_outside(whole: Decoded) -> None:
    assert re.findall("https?:", whole.markup) == []
    elements = re.sub(r"<(script|style)>.*?</\1>", "", whole.markup, flags=re.DOTALL)
    assert [found.group() for found in LOADS.finditer(elements)] == []


def test_policy_allows_only_the_script_and_the_style_of_the_file(whole: Decoded) -> None:
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', whole.markup)
    directives = dict(part.split(" ", 1) for part in policy.split("; "))
    for name, element in (("script-src", "script"), ("style-src", "style")):
        (code,) = re.findall(rf"<{element}>(.*?)</{element}>", whole.markup, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert directives[name] == f"'sha256-{digest}'"
    assert directives["default-src"] == "'none'"
    assert directives["trusted-types"] == "'none'"
    assert whole.markup.index("<meta http-equiv") < whole.markup.index("<style>")


def test_file_contains_both_runs_and_their_comparison(whole: Decoded, rich_project: Bookshop) -> None:
    run, baseline = rich_project.runs["new-prompt"], rich_project.runs["baseline"]
    assert whole.contents["version"] == __version__
    assert whole.contents["first"] == f"#/run/{run}"
    assert whole.contents["compared"] == [[baseline, run]]
    assert [(one["address"], one["complete"]) for one in whole.contents["runs"]] == [(run, True), (baseline, True)]
    assert [head["address"] for head in whole["runs"]["runs"]] == [run, baseline]
    assert whole["compare-0"]["a"]["address"] == baseline
    assert whole["compare-0"]["groups"]
    assert whole.notes == []


def test_file_has_what_the_library_has(whole: Decoded, rich_project: Bookshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(rich_project.root)
    library = Library(rich_project.root, [rich_project.runs[name] for name in ("new-prompt", "baseline")])
    for number, name in enumerate(("new-prompt", "baseline")):
        address = rich_project.runs[name]
        rows = rich_project.rows(name)
        assert whole[f"columns-{number}"] == library.column_data(address)
        entries = whole.entries(number)
        assert [entry["row"] for entry in entries] == list(range(len(rows)))
        for entry in entries:
            assert entry["detail"] == json.loads(json.dumps(library.detail(address, entry["row"])))
            assert entry["history"] == library.history(address, entry["row"])
            recorded = rows[entry["row"]]
            assert {key: entry["detail"]["row"][key] for key in recorded} == recorded
        assert whole[f"judges-{number}"] == json.loads(json.dumps(library.judges(address)))
        assert whole[f"labels-{number}"] == json.loads(json.dumps(library.labels(address)))


def test_file_contains_no_other_run_of_the_project(whole: Decoded, rich_project: Bookshop) -> None:
    others = {name: run for name, run in rich_project.runs.items() if name not in ("new-prompt", "baseline")}
    everything = "".join(whole.json.values())
    assert [run for run in others.values() if run in everything] == []
    info = whole["info-0"]
    assert info["baseline"] == rich_project.runs["baseline"]
    assert [head["address"] for head in info["baselines"]] == [rich_project.runs["baseline"]]
    assert (whole["info-1"]["baseline"], whole["info-1"]["baselines"]) == (None, [])


def test_hashes_are_those_of_the_record(whole: Decoded, rich_project: Bookshop) -> None:
    for run, name in zip(whole.contents["about"]["ledger"], ("new-prompt", "baseline"), strict=True):
        assert run["run"] == rich_project.runs[name]
        directory = rich_project.directory(name)
        sums = subprocess.run(
            ["sha256sum", *(file["name"] for file in run["files"])],
            cwd=directory,
            capture_output=True,
            text=True,
            check=True,
        )
        assert sums.stdout == "".join(f"{file['sha256']}  {file['name']}\n" for file in run["files"])
        assert [file["bytes"] for file in run["files"]] == [
            (directory / file["name"]).stat().st_size for file in run["files"]
        ]
        assert {file["name"] for file in run["files"]} >= set(RECORD)


def test_version_and_hashes_can_be_read_without_a_browser(whole: Decoded, own_project: Bookshop) -> None:
    def head(file: Decoded) -> list[str]:
        found = re.findall(r'<meta name="(?:generator|sha256)" content="([^"]*)">', file.text.partition("<style>")[0])
        return list(map(unescape, found))

    def sums(name: str, shown: str) -> list[str]:
        paths = [own_project.directory(name) / file for file in RECORD]
        return [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {shown}/{path.name}" for path in paths]

    runs = own_project.runs
    version, *recorded = head(whole)
    assert version == f"agentv {__version__}"
    expected = {*sums("new-prompt", runs["new-prompt"]), *sums("baseline", runs["baseline"])}
    assert {line for line in recorded if line.endswith(RECORD)} == expected
    # The directory of a run can have any name.
    moved = own_project.root / 'a "b" <c>'
    shutil.copytree(own_project.directory("baseline"), moved)
    file = Decoded("".join(RunFile(Library(own_project.root, [str(moved)]), moved.name)))
    assert head(file)[1:] == [
        line.replace(runs["baseline"], moved.name) for line in recorded if runs["baseline"] in line
    ]


def test_two_files_differ_only_in_their_time(rich_project: Bookshop) -> None:
    runs = rich_project.runs
    one, other = (written_by(rich_project.root, runs["new-prompt"], runs["baseline"], share=True) for _ in range(2))
    assert one.markup == other.markup
    assert {**one.json, "contents": ""} == {**other.json, "contents": ""}
    contents = [file.contents for file in (one, other)]
    for each in contents:
        each["about"].pop("written_at")
    assert contents[0] == contents[1]


# -- rows with details


def test_failures_are_all_attempts_of_cases_that_did_not_pass_in_one_of_the_runs(rich_project: Bookshop) -> None:
    runs = rich_project.runs
    file = written_by(rich_project.root, runs["new-prompt"], runs["baseline"], details="failures")
    rows = {name: rich_project.rows(name) for name in ("new-prompt", "baseline")}
    bad = {
        (row["suite"], row["eval_id"])
        for both in rows.values()
        for row in both
        if row["verdict"] != "pass" or row["error"] is not None
    }
    left_out = 0
    for number, name in enumerate(rows):
        expected = [at for at, row in enumerate(rows[name]) if (row["suite"], row["eval_id"]) in bad]
        assert [entry["row"] for entry in file.entries(number)] == expected
        assert file.contents["runs"][number]["complete"] is False
        assert file[f"columns-{number}"]["count"] == len(rows[name])
        left_out += len(rows[name]) - len(expected)
    assert left_out > 0
    assert file.notes == [
        "Only cases that did not pass can be opened: the details of "
        f"{left_out} rows are not in this file (--with failures)."
    ]


def test_failures_without_baseline_have_all_attempts_of_a_flaky_case(rich_project: Bookshop) -> None:
    file = written_by(rich_project.root, rich_project.runs["summaries"], details="failures")
    rows = rich_project.rows("summaries")
    bad = {row["eval_id"] for row in rows if row["verdict"] != "pass" or row["error"]}
    expected = [at for at, row in enumerate(rows) if row["eval_id"] in bad]
    assert any(rows[at]["verdict"] == "pass" for at in expected)
    assert [entry["row"] for entry in file.entries()] == expected


def test_large_file_has_only_failures_unless_all_are_wanted(
    rich_project: Bookshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "LARGEST", 10_000)
    run = rich_project.runs["new-prompt"]
    count = len(rich_project.rows("new-prompt"))
    small = written_by(rich_project.root, run)
    assert 0 < len(small.entries()) < count
    assert re.fullmatch(r"Only .* \(with them, the file would have about 0\.\d MB\)\.", small.notes[0])
    assert len(written_by(rich_project.root, run, details="all").entries()) == count


def test_estimated_size_is_close_to_the_real_one(whole: Decoded, rich_project: Bookshop) -> None:
    blocks = sum(len(data) for name, data in re.findall(r'id="data-(details-\d+-\d+)">([^<]*)', whole.text))
    estimate = sum(
        estimated_size(RunDirectory(rich_project.directory(name)), len(rich_project.rows(name)))
        for name in ("new-prompt", "baseline")
    )
    assert 0.4 < estimate / blocks < 2.5


def test_rows_are_not_kept_in_memory(tmp_path: Path) -> None:
    directory = tmp_path / "large"
    sizes = write_large_run(directory, Shape(rows=200, targets=("one",), answer_words=5_000))
    library = Library(tmp_path, [str(directory)])
    assets.script()
    pieces, most = [], 0
    tracemalloc.start()
    try:
        for piece in RunFile(library, "large", details="all"):
            pieces.append(len(piece))
            most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sum(sizes.values()) > 15, "MB"
    assert sum(pieces) > 4_000_000
    assert most < 8_000_000
    assert max(pieces) < 2_000_000


# -- sharing


def test_shared_file_does_not_identify_the_machine(own_project: Bookshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_project.root)
    directory = own_project.directory("new-prompt")
    manifest = json.loads((directory / "run.json").read_text())
    cwd, user, host = manifest["cwd"], "mkeller-canary", "build7.corp.example"
    monkeypatch.setenv("LOGNAME", user)
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    rows = own_project.rows("new-prompt")
    rows[0]["candidate_answer"] = f"I read {cwd}/notes.txt as {user} on {host}; see /home/{user}/x."
    rows[1]["error"] = {"stage": "target", "message": f"{user}@{host}: cannot open {Path.home()}/key"}
    (directory / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    runs = own_project.runs
    file = written_by(own_project.root, runs["new-prompt"], runs["baseline"], share=True)
    everything = file.markup + "".join(file.json.values())
    for canary in (cwd, str(own_project.root), user, host, str(Path.home()) + "/", str(own_project.root.parent)):
        assert canary not in everything, canary
    assert getpass.getuser() == user
    first, second = file.entries()[:2]
    assert (
        first["detail"]["row"]["candidate_answer"] == "I read [project]/notes.txt as [user] on [host-1]; see [home]/x."
    )
    assert first["answer_sha256"] == hashlib.sha256(rows[0]["candidate_answer"].encode()).hexdigest()
    assert second["detail"]["row"]["error"]["message"] == "[user]@[host-1]: cannot open [home]/key"
    assert file["columns-0"]["reason"][1] == "[user]@[host-1]: cannot open [home]/key"
    assert file.notes == ["Paths, user names and host names were masked (--share)."]
    unmasked = "".join(written_by(own_project.root, runs["new-prompt"], runs["baseline"]).json.values())
    assert all(canary in unmasked for canary in (user, host, cwd))


def test_secrets_that_were_masked_stay_masked(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets: {leaky: {provider: cli, command: [sh, say.sh], env: {KEY: '${{ MY_SECRET }}'}}}\n",
    )
    project.write("say.sh", 'echo "my key is $KEY"\n')
    project.write("suite.yaml", "evalcases: [{id: a, input: hello, evaluators: [{type: contains, value: key}]}]\n")
    secret = {"MY_SECRET": "sk-canary-0123456789abcdef"}
    assert project.run("eval", "suite.yaml", "--quiet", env=secret).returncode == 0
    done = project.run("report", "latest", "--format", "html", "-o", "x.html", env=secret)
    assert done.returncode == 0, done.stderr
    file = Decoded.read(project.root / "x.html")
    assert file.entries()[0]["detail"]["row"]["candidate_answer"] == "my key is [redacted]"
    assert "canary" not in "".join(file.json.values())


# -- runs in other states


def test_run_that_is_being_written_has_no_hashes(own_project: Bookshop) -> None:
    directory = own_project.directory("new-prompt")
    with RunDirectory.open(directory).lock():
        file = written_by(own_project.root, directory.name)
    rows = len(own_project.rows("new-prompt"))
    assert file.contents["about"]["ledger"] == [{"run": directory.name, "files": []}]
    assert file.notes == [f"{directory.name} was still being written: this file has its first {rows} rows."]
    assert file["info-0"]["ledger"] == []
    assert len(file.entries()) == rows


def _append_row(directory: Path, row: dict[str, Any]) -> None:
    with (directory / "results.jsonl").open("a") as results:
        results.write(json.dumps({**row, "eval_id": "new"}) + "\n")


def test_comparison_of_a_run_that_grows_has_the_rows_of_the_file(own_project: Bookshop) -> None:
    directory, baseline = own_project.directory("new-prompt"), own_project.directory("baseline")
    rows, before = own_project.rows("new-prompt"), own_project.rows("baseline")
    pieces = RunFile(
        Library(own_project.root, [directory.name, baseline.name]), directory.name, baseline.name, "failures"
    )
    _append_row(directory, rows[0])
    _append_row(baseline, before[0])
    file = Decoded("".join(pieces))
    assert file["columns-0"]["count"] == len(rows)
    assert max(file["compare-0"]["pairs"]["row2"]) < len(rows)
    assert "new" not in file["compare-0"]["pairs"]["eval_id"]


def test_run_that_grows_before_its_rows_are_opened_has_no_hashes(own_project: Bookshop) -> None:
    directory, rows = own_project.directory("new-prompt"), own_project.rows("new-prompt")
    pieces = RunFile(Library(own_project.root, [directory.name]), directory.name)
    _append_row(directory, rows[0])
    file = Decoded("".join(pieces))
    assert len(file.entries()) == file["columns-0"]["count"] == len(rows)
    assert file.contents["about"]["ledger"][0]["files"] == []
    assert file["info-0"]["ledger"] == []
    assert file.notes == [f"{directory.name} was still being written: this file has its first {len(rows)} rows."]


def test_run_that_changes_later_is_written_as_it_was(own_project: Bookshop) -> None:
    directory, rows = own_project.directory("new-prompt"), own_project.rows("new-prompt")
    sha256 = hashlib.sha256((directory / "results.jsonl").read_bytes()).hexdigest()
    pieces = []
    for piece in RunFile(Library(own_project.root, [directory.name]), directory.name):
        pieces.append(piece)
        if "data-contents" in piece:
            _append_row(directory, rows[0])
            for name in ("results.jsonl", "cases.jsonl", "judge_calls.jsonl"):
                (directory / name).rename(directory / f"{name}.old")
                (directory / name).write_text("")
    file = Decoded("".join(pieces))
    assert [entry["detail"]["row"] for entry in file.entries()] == rows
    assert all(entry["detail"]["case"] for entry in file.entries())
    assert any(entry["detail"]["judge_calls"] for entry in file.entries())
    assert file.contents["about"]["ledger"][0]["files"][0]["sha256"] == sha256
    assert file.notes == []


def test_killed_run(own_project: Bookshop) -> None:
    directory = own_project.directory("new-prompt")
    whole = (directory / "results.jsonl").read_bytes().splitlines(keepends=True)
    (directory / "results.jsonl").write_bytes(b"".join(whole[:5]) + whole[5][:100])
    manifest = json.loads((directory / "run.json").read_text())
    manifest["status"] = "running"
    del manifest["summary"], manifest["finished_at"]
    (directory / "run.json").write_text(json.dumps(manifest, indent=2))
    file = written_by(own_project.root, directory.name)
    assert len(file.entries()) == 5
    assert file["runs"]["runs"][0]["status"] == "interrupted"
    assert any("incomplete" in problem for problem in file["info-0"]["problems"])
    assert file.contents["about"]["ledger"][0]["files"]


def test_run_without_rows(own_project: Bookshop) -> None:
    directory = own_project.directory("new-prompt")
    for name in ("results.jsonl", "judge_calls.jsonl"):
        (directory / name).write_bytes(b"")
    file = written_by(own_project.root, directory.name)
    assert file.entries() == []
    assert file["columns-0"]["count"] == 0


def test_run_of_an_older_version(own_project: Bookshop) -> None:
    directory = own_project.directory("new-prompt")
    for name in ("cases.jsonl", "judge_calls.jsonl", "labels.jsonl"):
        (directory / name).unlink()
    rows = own_project.rows("new-prompt")
    added = ("threshold", "case_sha256", "model", "finish_reason", "trials")
    old = [{key: value for key, value in row.items() if key not in added} for row in rows]
    (directory / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in old))
    file = written_by(own_project.root, directory.name)
    assert len(file.entries()) == len(rows)
    assert {entry["detail"]["case"] for entry in file.entries()} == {None}


# -- the command


def test_command_writes_a_private_file_and_reports_its_size(own_project: Bookshop) -> None:
    (out := own_project.root / "report.html").write_text("old")
    done = report(own_project.root, "report", "new-prompt", "--format", "html", "-o", "report.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"wrote report\.html \(0\.\d MB\)\n", done.stderr)
    assert out.stat().st_mode & 0o777 == 0o600
    assert not list(own_project.root.glob(".*.tmp"))
    assert Decoded.read(out).contents["runs"][0]["address"] == own_project.runs["new-prompt"]


def test_command_finds_runs_by_latest_directory_and_results(own_project: Bookshop, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "my run"
    shutil.copytree(own_project.directory("baseline"), moved)
    arguments = ("--format", "html", "--baseline", str(moved), "-o", "x.html")
    done = report(own_project.root, "report", "latest~3", *arguments)
    assert done.returncode == 0, done.stderr
    contents = Decoded.read(own_project.root / "x.html").contents
    assert [run["address"] for run in contents["runs"]] == [own_project.runs["new-prompt"], "my run"]
    done = report(own_project.root, "report", f"{moved}/results.jsonl", "--format", "html", "-o", "y.html")
    assert done.returncode == 0, done.stderr
    assert Decoded.read(own_project.root / "y.html").contents["first"] == "#/run/my%20run"


def test_file_goes_to_a_pipe_but_not_to_a_terminal(rich_project: Bookshop) -> None:
    command = ("report", "summaries", "--format", "html")
    piped = report(rich_project.root, *command)
    assert piped.returncode == 0
    assert piped.stdout.startswith("<!doctype html>")
    assert piped.stdout.endswith("</html>\n")
    mine, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [*AGENTV, *command, "-o", "-"],
            cwd=rich_project.root,
            env=environment(),
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(theirs)
        os.close(mine)
    assert done.returncode == 2
    assert "The HTML file is not printed to a terminal." in done.stderr
    assert "--out report.html" in done.stderr


def test_compare_writes_a_file_that_opens_at_the_comparison(own_project: Bookshop) -> None:
    done = report(own_project.root, "compare", "baseline", "new-prompt", "--html", "x.html")
    assert done.returncode == 0, done.stderr
    assert "wrote x.html" in done.stderr
    assert "baseline" in done.stdout
    contents = Decoded.read(own_project.root / "x.html").contents
    baseline, run = own_project.runs["baseline"], own_project.runs["new-prompt"]
    assert contents["first"] == f"#/compare/{baseline}/{run}"
    assert contents["compared"] == [[baseline, run]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("report", "latest", "--share"), "--share can only be used with --format html."),
        (("report", "latest", "--baseline", "first"), "--baseline can only be used with --format html."),
        (("report", "latest", "--with", "all"), "--with can only be used with --format html."),
        (("report", "latest", "-f", "html", "-o", "."), "--out must be a file, got the directory '.'."),
        (("report", "first", "-f", "html", "-o", "x.html", "--baseline", "first"), "first and first are the same run."),
        (("report", "no-such-run", "-f", "html", "-o", "x.html"), "run 'no-such-run' not found"),
        (("report", "loose.jsonl", "-f", "html", "-o", "x.html"), "loose.jsonl is a file without its run."),
        (("report", "first", "-f", "html", "-o", "{run}/x.html"), "is in the directory of a run."),
        (("report", "first", "-f", "html", "-o", "x.html", "--baseline", "summaries"), "no cases in common"),
        (("compare", "first", "baseline", "--html", "x.html", "--threshold", "0.2"), "--html and --threshold cannot"),
        (("compare", "first", "baseline", "--html", "{run}/x.html"), "is in the directory of a run."),
    ],
)
def test_what_cannot_be_written_is_refused(own_project: Bookshop, arguments: tuple[str, ...], expected: str) -> None:
    (own_project.root / "loose.jsonl").write_text("")
    filled = [argument.replace("{run}", str(own_project.directory("first"))) for argument in arguments]
    done = report(own_project.root, *filled)
    assert done.returncode == 2
    assert done.stdout == ""
    assert expected in done.stderr
    assert not list(own_project.root.rglob("*.html"))


# -- in a browser


def test_file_opens_from_any_path_without_network(
    browser: Browser, written: Files, rich_project: Bookshop, tmp_path: Path
) -> None:
    path = tmp_path / "my reports #1" / "100% of it?.html"
    path.parent.mkdir()
    shutil.copy(written.path("new-prompt", "baseline"), path)
    with Opened(browser, written, rich_project) as opened:
        page = opened.watched(path.as_uri())
        assert page.evaluate("location.hash") == f"#/run/{rich_project.runs['new-prompt']}"
        page.get_by_text("shipping-cost").first.wait_for(state="attached")
        assert "Written by agentv" in page.inner_text("footer.about")
        page.get_by_text("SHA-256 of the record").click()
        results = (rich_project.directory("new-prompt") / "results.jsonl").read_bytes()
        assert hashlib.sha256(results).hexdigest() in page.inner_text("footer.about")


def test_page_says_which_cases_are_not_in_the_file(browser: Browser, written: Files, rich_project: Bookshop) -> None:
    rows = rich_project.rows("new-prompt")
    passed = next(row for row in rows if row["verdict"] == "pass" and not row["error"])
    failed = next(row for row in rows if row["verdict"] == "fail" and not row["error"])
    path = written.path("new-prompt", None, "--with", "failures")
    with Opened(browser, written, rich_project) as opened:
        page = opened.watched(path.as_uri())
        assert "Only cases that did not pass can be opened" in page.inner_text("footer.about")
        run = rich_project.runs["new-prompt"]
        opened.go(page, page_address("run", run, "case", passed["suite"], passed["eval_id"], passed["target"], "1"))
        assert "This file does not contain" in page.inner_text("main")
        opened.go(page, page_address("run", run, "case", failed["suite"], failed["eval_id"], failed["target"], "1"))
        assert failed["candidate_answer"] in page.inner_text("main")


@pytest.mark.parametrize("whole", [True, False])
def test_table_is_shown_before_the_details_have_arrived(
    browser: Browser, written: Files, rich_project: Bookshop, whole: bool
) -> None:
    row, run = rich_project.rows("new-prompt")[0], rich_project.runs["new-prompt"]
    text = written.path("new-prompt", None).read_bytes()
    at = text.index(b'<script type="text/plain" id="data-details-0-0">') + 200
    rest = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text[:at])
            rest.wait(20)
            self.wfile.write(text[at:] if whole else b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server, browser.new_context() as context:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/", wait_until="commit")
            page.get_by_role("gridcell").first.wait_for()
            place = page_address("run", run, "case", row["suite"], row["eval_id"], row["target"], "1")
            page.evaluate("(place) => { location.hash = place; }", place)
            page.wait_for_selector("main[aria-busy]")
            rest.set()
            page.wait_for_selector("main:not([aria-busy])")
            shown = row["candidate_answer"][:40] if whole else "This file is incomplete: it"
            assert shown in page.inner_text("main")
        finally:
            rest.set()
            server.shutdown()


@pytest.mark.parametrize("state", ["empty", "killed", "old"])
def test_page_of_a_run_in_another_state_is_shown(
    browser: Browser, own_project: Bookshop, tmp_path: Path, state: str
) -> None:
    directory = own_project.directory("new-prompt")
    results = directory / "results.jsonl"
    whole = results.read_bytes()
    if state == "old":
        (directory / "cases.jsonl").unlink()
    else:
        results.write_bytes(b"" if state == "empty" else whole[: len(whole) // 3])
    files = Files(own_project.root, tmp_path)
    with Opened(browser, files, own_project) as opened:
        page = opened("new-prompt", baseline=None)
        for part in ("", "/judges", "/review"):
            opened.go(page, opened.place("new-prompt", part))
            assert "This page cannot be shown" not in page.inner_text("main")
        if state != "empty":
            row = own_project.rows("baseline")[0]
            to = page_address("run", directory.name, "case", row["suite"], row["eval_id"], row["target"], "1")
            opened.go(page, to)
            assert row["eval_id"] in page.inner_text("main h1")
