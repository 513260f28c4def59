"""Runs with several prompts: rows, summary, comparison, resume, reports and the viewer's columns."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.conftest import Project

CONFIG = """\
    targets:
      bot:
        provider: mock
        response: I do not know.
        rules:
          - {match: "Briefly.*city 1", response: City 1}
          - {match: "Explain", response: "It is City 1, City 2, City 3, City 4, City 5, City 6, City 7 or City 8."}
      other: {provider: mock, response: City 2}
    defaults: {target: bot}
    """
SUITE = """\
    prompts:
      - {id: terse, template: "Briefly: {{ question }}"}
      - id: long
        messages: [{role: system, content: Be kind.}, {role: user, content: "Explain: {{ question }}"}]
    execution: {evaluators: [{type: contains}]}
    evalcases: {file: qa.csv, columns: {reference_answer: answer, id: key}}
    """


@pytest.fixture
def prompts(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    rows = "".join(f"c{n},Which is city {n}?,City {n}\n" for n in range(1, 9))
    project.write("qa.csv", "key,question,answer\n" + rows)
    return project


def test_run_has_a_row_for_each_case_and_prompt(prompts: Project) -> None:
    done = prompts.run("eval", "suite.yaml", "--run-dir", "run", "--json")
    summary = json.loads(done.stdout)
    assert summary["total"] == 16
    assert {name: counts["passed"] for name, counts in summary["by_prompt"].items()} == {"terse": 1, "long": 8}
    assert list(summary["by_target"]) == ["bot"]
    assert list(summary["by_variant"]) == ["bot [terse]", "bot [long]"]
    variants = summary["variants"]
    assert (variants["best"], variants["is_clear"]) == ("long", True)
    assert variants["names"] == ["terse", "long"]
    assert variants["rivals"][0]["low"] > 0
    rows = prompts.rows(prompts.root / "run")
    assert {(row["eval_id"], row["prompt"], row["target"]) for row in rows} == {
        (f"c{n}", prompt, "bot") for n in range(1, 9) for prompt in ("terse", "long")
    }
    lines = (prompts.root / "run" / "cases.jsonl").read_text().splitlines()
    asked = {(case["eval_id"], case["prompt"]): case["input_messages"] for case in map(json.loads, lines)}
    assert len(asked) == 16
    assert asked["c2", "long"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Explain: Which is city 2?"},
    ]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ("[a, b, c]", "prompt-1, prompt-2 and prompt-3 have the same mean score."),
        ("[a, b, no]", "prompt-1 and prompt-2 have the highest mean score."),
        ("[a, b, c, d, e]", "5 variants have the same mean score."),
    ],
)
def test_all_variants_with_the_highest_mean_score_are_named(project: Project, prompts: str, expected: str) -> None:
    project.write(
        "agentv.config.yaml", "targets: {bot: {provider: mock, rules: [{match: no, response: x}], response: y}}"
    )
    project.write(
        "suite.yaml", f"prompts: {prompts}\nevalcases: [{{id: k, evaluators: [{{type: equals, value: y}}]}}]\n"
    )
    assert f"  {expected}\n" in project.run("eval", "suite.yaml").stdout


def test_table_of_many_variants_fits_into_the_line(prompts: Project) -> None:
    texts = "".join(
        f"  - {{id: a-long-name-of-prompt-{n}, template: 'Text {n} {{{{ question }}}}'}}\n" for n in range(12)
    )
    suite = textwrap.dedent(SUITE)
    prompts.write("many.yaml", f"prompts:\n{texts}{suite[suite.index('execution') :]}")
    for command in (["eval", "many.yaml", "--run-dir", "many"], ["compare", "many", "--by", "prompt"]):
        out = prompts.run(*command, env={"COLUMNS": "80"}).stdout
        assert max(map(len, out.splitlines())) <= 80
        assert "   1  a-long-name-of-prompt-0\n" in out
        assert "\n  and 3 more with the same or a lower mean (see run.json)\n" in out
        (header,) = [line for line in out.splitlines() if line.startswith("  Case ")]
        assert header.split() == ["Case", *map(str, range(1, 10))]


def test_summary_shows_the_table_and_the_winner(prompts: Project) -> None:
    out = prompts.run("eval", "suite.yaml").stdout
    assert "Variants" in out
    assert "bot [long]      8/8" in out
    assert "mean score   0.12  1.00" in out
    assert "long is best: +0.88 over terse (95% interval" in out
    assert "c2  (bot [terse])" in out
    assert "question: Briefly: Which is city 2?" in out


def test_prompts_of_one_run_are_compared(prompts: Project) -> None:
    prompts.run("eval", "suite.yaml", "--run-dir", "run", "--quiet")
    done = prompts.run("compare", "run", "--by", "prompt", "--json")
    comparison = json.loads(done.stdout)["summary"]
    assert (comparison["conclusion"], comparison["wins"], comparison["losses"]) == ("better", 7, 0)
    assert done.returncode == 0
    turned = prompts.run("compare", "run", "--by", "prompt", "--prompt-a", "long")
    assert turned.returncode == 1
    assert "run (long)" in turned.stdout
    assert "run (terse)" in turned.stdout
    wrong = prompts.run("compare", "run", "--by", "prompt", "--prompt-a", "lon")
    assert wrong.returncode == 2
    assert "run has no prompt 'lon' (did you mean `long`?)" in wrong.stderr
    assert "its only target is 'bot'" in prompts.run("compare", "run", "--by", "target").stderr
    assert "compare needs two runs" in prompts.run("compare", "run").stderr


def test_three_prompts_and_two_targets_are_compared_together(prompts: Project) -> None:
    prompts.write("third.txt", "Third: {{ question }}")
    for name in ("terse", "long"):
        prompts.write(f"{name}.md", f"{'Briefly' if name == 'terse' else 'Explain'}: {{{{ question }}}}")
    files = [option for name in ("third.txt", "terse.md", "long.md") for option in ("--prompt", name)]
    done = prompts.run(
        "eval", "suite.yaml", *files, "--target", "bot", "--target", "other", "--run-dir", "run", "--json"
    )
    summary = json.loads(done.stdout)
    assert summary["total"] == 48
    assert len(summary["variants"]["names"]) == 6
    by_prompt = prompts.run("compare", "run", "--by", "prompt")
    assert by_prompt.returncode == 0, by_prompt.stderr
    assert "third  terse  long" in by_prompt.stdout
    assert "long is best: +0.44 over terse" in by_prompt.stdout
    assert "over 8 cases, each with 2 targets" in " ".join(by_prompt.stdout.split())
    assert by_prompt.stdout.count("c1 ") == 1
    by_target = json.loads(prompts.run("compare", "run", "--by", "target", "--json").stdout)
    assert (by_target["summary"]["matched"], by_target["summary"]["cases"]) == (24, 8)
    assert prompts.manifest(prompts.root / "run")["options"]["prompts"] == ["third.txt", "terse.md", "long.md"]


def test_one_case_with_many_prompts_or_targets_is_too_few(prompts: Project) -> None:
    targets = [option for name in "abcdef" for option in ("--target", name)]
    model = "{provider: mock, response: unknown, rules: [{match: Briefly, response: City 1}]}"
    prompts.write("qa.csv", "key,question,answer\nc1,Which is city 1?,City 1\n")
    prompts.write("agentv.config.yaml", "targets:\n" + "".join(f"  {name}: {model}\n" for name in "abcdef"))
    prompts.run("eval", "suite.yaml", *targets, "--run-dir", "run", "--quiet")
    done = prompts.run("compare", "run", "--by", "prompt")
    assert "too few cases: 1 compared, each with 6 targets, at least 6 needed" in done.stdout
    assert done.returncode == 0
    prompts.write("third.txt", "Third: {{ question }}")
    prompts.write("terse.md", "Briefly: {{ question }}")
    prompts.write("long.md", "Explain: {{ question }}")
    files = [option for name in ("third.txt", "terse.md", "long.md") for option in ("--prompt", name)]
    prompts.run("eval", "suite.yaml", *files, *targets, "--run-dir", "three", "--quiet")
    done = prompts.run("compare", "three", "--by", "prompt")
    assert "terse has the highest mean score, but 1 case is too few to be certain" in done.stdout


def test_interrupted_run_with_prompts_is_resumed_without_repeating_rows(prompts: Project) -> None:
    prompts.run("eval", "suite.yaml", "--run-dir", "run", "--quiet")
    path = prompts.root / "run" / "results.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]))
    done = prompts.run("eval", "--resume", "run")
    assert "5 of 16 rows already recorded, 11 to run" in done.stderr + done.stdout
    keys = [(row["eval_id"], row["prompt"]) for row in prompts.rows(prompts.root / "run")]
    assert len(keys) == len(set(keys)) == 16
    prompts.write("qa.csv", "key,question,answer\nc1,Which is city 1?,City 2\n")
    assert "changed" in prompts.run("eval", "--resume", "run").stderr


def test_failed_variants_alone_are_run_again(prompts: Project) -> None:
    prompts.run("eval", "suite.yaml", "--quiet")
    prompts.run("eval", "--last-failed", "--quiet")
    assert {(row["eval_id"], row["prompt"]) for row in prompts.rows()} == {(f"c{n}", "terse") for n in range(2, 9)}


def test_recorded_answers_are_graded_and_replayed_by_prompt(prompts: Project) -> None:
    first = json.loads(prompts.run("eval", "suite.yaml", "--run-dir", "run", "--json").stdout)
    for option in ("--outputs", "--replay"):
        again = json.loads(prompts.run("eval", "suite.yaml", option, "run", "--json").stdout)
        assert again["by_prompt"] == first["by_prompt"], option
    prompts.write("suite.yaml", SUITE.replace("Briefly: {{", "Shortly: {{"))
    changed = prompts.run("eval", "suite.yaml", "--replay", "run", "--json")
    assert json.loads(changed.stdout)["errors"] == 8
    assert "its input" in changed.stderr


def test_one_variant_is_shown_and_reported(prompts: Project) -> None:
    prompts.run("eval", "suite.yaml", "--run-dir", "run", "--quiet")
    shown = prompts.run("show", "run", "c2", "--target", "bot [long]").stdout
    assert prompts.run("show", "run", "c2", "--prompt", "long").stdout == shown
    assert "has no prompt 'lang'" in prompts.run("show", "run", "c2", "--prompt", "lang").stderr
    assert "prompt  long" in shown
    assert "Explain: Which is city 2?" in shown
    assert "also    bot [terse]: fail 0.00" in shown
    junit = prompts.run("report", "run", "--format", "junit").stdout
    assert 'name="suite (bot [terse])"' in junit
    markdown = prompts.run("report", "run", "--format", "markdown").stdout
    assert "| case | <code>terse</code> | <code>long</code> |" in markdown
    prompts.run("convert", "run", "--to", "csv")
    table = (prompts.root / "run" / "results.csv").read_text().splitlines()
    assert "prompt" in table[0].split(",")
    assert "not counted" not in prompts.run("judge", "agreement", "run").stderr
    assert prompts.run("report", "run", "--format", "html", "--out", "run.html").returncode == 0
    compared = prompts.run("compare", "run", "run", "--target-a", "bot [terse]", "--target-b", "bot [long]", "--json")
    assert json.loads(compared.stdout)["summary"]["wins"] == 7


def test_system_prompt_and_prompt_of_a_target_are_added_to_its_cases(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          plain: {provider: cli, command: [cat]}
          polite: {provider: cli, command: [cat], system_prompt: "Be {{ tone }}.", prompt: "Please: {{ input }}"}
        """,
    )
    project.write(
        "suite.yaml",
        """\
        vars: {tone: kind}
        evalcases: [{id: a, input: Why?, evaluators: [{type: is_json}]}]
        """,
    )
    project.run("eval", "suite.yaml", "--target", "plain", "--target", "polite", "--quiet")
    answers = {row["target"]: row["candidate_answer"] for row in project.rows()}
    assert answers["plain"].strip() == "Why?"
    assert "Be kind." in answers["polite"]
    assert "Please: Why?" in answers["polite"]
    shown = project.run("show", "a", "--target", "polite").stdout
    assert (
        "Question  as sent, with the prompts of the target\n  system\n    Be kind.\n\n  user\n    Please: Why?\n"
        in shown
    )
    assert "Question\n  Why?\n" in project.run("show", "a", "--target", "plain").stdout
    project.write("suite.yaml", "evalcases: [{id: a, input: Why?, evaluators: [{type: is_json}]}]\n")
    done = project.run("eval", "suite.yaml", "--target", "polite")
    assert done.returncode == 2
    assert "agentv.config.yaml:3:" in done.stderr
    assert "`system_prompt` uses `{{ tone }}`, which is not a variable of every case" in done.stderr


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"empty.txt": b" \n"}, "empty.txt:1:1: the file is empty; write the prompt in it"),
        ({"latin.txt": b"caf\xe9"}, "latin.txt:1:1: the file is not UTF-8 text (byte 3)"),
        ({"one/x.txt": b"a", "two/x.txt": b"b"}, "two/x.txt:1:1: its id 'x' is also that of --prompt "),
        ({"a.yaml": b"- role: user\n  content: x\n- {role: usr, content: x}\n"}, "a.yaml:3:10: `role` must be "),
        ({"a.json": b'[{"role":\n]'}, "a.json:2:1: not valid JSON: expecting value"),
        ({"a.yaml": b"messages: 5\n"}, "a.yaml:1:1: a prompt must be a list of messages like "),
        ({"a[1].txt": b"x"}, "a[1].txt:1:1: the id of a prompt must not contain brackets, got 'a[1]'; rename"),
    ],
)
def test_problems_of_prompt_files_are_reported_in_these_files_once(
    prompts: Project, files: dict[str, bytes], expected: str
) -> None:
    for name, content in files.items():
        prompts.write(name, "").write_bytes(content)
    prompts.write("other.yaml", SUITE)
    options = [option for name in files for option in ("--prompt", name)]
    done = prompts.run("eval", "suite.yaml", "other.yaml", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(expected), done.stderr
    assert done.stderr.rstrip().endswith("1 problem in 1 file")


def test_judge_calls_belong_to_their_variant(prompts: Project) -> None:
    config = CONFIG.replace("defaults: {target: bot}", "  judge: {provider: cli, command: [sh, judge.sh]}")
    prompts.write("agentv.config.yaml", config + "defaults: {target: bot, judge_target: judge}\n")
    prompts.write("judge.sh", 'cat > /dev/null\necho x >> calls\necho \'{"score": 1, "reasoning": "It fits."}\'\n')
    prompts.write("suite.yaml", SUITE.replace("{type: contains}", "{type: llm_judge}"))
    prompts.run("eval", "suite.yaml", "--run-dir", "run", "--quiet")
    calls = [json.loads(line) for line in (prompts.root / "run" / "judge_calls.jsonl").read_text().splitlines()]
    assert {(call["eval_id"], call["case_target"]) for call in calls} == {
        (f"c{n}", f"bot [{prompt}]") for n in range(1, 9) for prompt in ("terse", "long")
    }
    shown = prompts.run("show", "run", "c2", "--prompt", "long").stdout
    assert "Explain: Which is city 2?" in shown[shown.index("Judge calls") :]
    rows = prompts.root / "run" / "results.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:4]))
    prompts.run("eval", "--resume", "run", "--quiet")
    assert len(prompts.rows(prompts.root / "run")) == 16
    assert (prompts.root / "calls").read_text().count("x") == 16  # nothing is judged twice


def test_prompt_of_a_target_must_contain_the_question(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {bot: {provider: mock, prompt: Be brief., response: y}}")
    project.write("suite.yaml", "evalcases: [{id: k, input: Why?, evaluators: [{type: equals, value: y}]}]\n")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 2
    assert "agentv.config.yaml:1:41: `prompt` must contain the question: write `{{ input }}` in it" in done.stderr
    project.write(
        "agentv.config.yaml", 'targets: {bot: {provider: mock, prompt: "{{ input }} Be brief.", response: y}}'
    )
    assert project.run("eval", "suite.yaml").returncode == 0


def test_template_of_every_kind_of_target_is_checked(project: Project) -> None:
    target = '{provider: http, url: "http://127.0.0.1:1/{{ prompt }}", system_prompt: "{{ open"}'
    project.write("agentv.config.yaml", f"targets: {{bot: {target}}}")
    project.write("suite.yaml", "evalcases: [{id: k, input: Why?, evaluators: [{type: equals, value: y}]}]\n")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 2
    assert "agentv.config.yaml:1:88: `system_prompt`: unexpected end of template" in done.stderr
