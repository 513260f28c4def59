"""`agentv judge run`: run a judge script on one case and show what it does."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.judge_support import judged, judges, read_until, started
from tests.conftest import Project
from tests.threats.support import alive_with

__all__ = ["judges"]

CASE = ("--suite", "evals/suite.yaml", "--case", "france")
KEY = "sk-judge-0123456789abcdef"


def test_judge_run_prints_payload_log_calls_and_result(judges: Project) -> None:
    done = judges.run("judge", "run", *CASE, "--evaluator", "asks")
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "suite: france, calling assistant"
    assert "candidate_answer  The capital of France is Paris." in lines
    assert any(line.startswith("empty or absent: input_files, expected_outcome") for line in lines)
    assert "stderr   colour blue" in lines
    (call,) = [line for line in lines if line.startswith("judge 1")]
    assert call.startswith("judge 1  strict, ")
    assert call.endswith("ms, 41 tokens (40 in, 1 out)")
    assert "asked    Is this right? …" in lines
    assert "replied  yes" in lines
    assert any(line.startswith("! judged: 0.75 borderline") for line in lines)
    assert lines[lines.index("+ named it") + 1] == "- said nothing else"
    assert "Reason   the judge said yes" in lines
    assert 'Details  {"word": "Paris"}' in lines
    assert lines[-1] == "Judge    strict: 1 of 3 calls, 41 tokens (40 in, 1 out), $0.0010"
    assert "\x1b" not in done.stdout


def test_long_output_is_shortened_unless_full(judges: Project) -> None:
    answer = "Paris " * 40 + "END"
    short = judges.run("judge", "run", *CASE, "--evaluator", "asks", "--answer", answer, env={"COLUMNS": "80"})
    assert max(map(len, short.stdout.splitlines())) <= 80
    assert "END" not in short.stdout
    full = judges.run("judge", "run", *CASE, "--evaluator", "asks", "--answer", answer, "--full")
    assert f'"candidate_answer": "{answer}"' in full.stdout
    assert "Is this right?\n" in full.stdout
    assert full.stdout.count("END") >= 2


def test_log_and_calls_are_printed_while_the_script_runs(judges: Project) -> None:
    """The script waits for a file that is created only after its log was printed."""
    judges.write(
        "evals/judges/waits.py",
        """\
        import pathlib, time
        from agentv_eval import code_judge

        @code_judge
        def waits(input, judge):
            judge.invoke(question="first")
            print("are you there?")
            while not pathlib.Path("seen").exists():
                time.sleep(0.01)
            return 1
        """,
    )
    with started(judges, "run", "evals/judges/waits.py", *CASE) as process:
        seen = read_until(process.stdout, "stderr   are you there?")
        assert "judge 1  strict" in seen
        assert "judged:" not in seen
        judges.write("evals/seen", "")
        assert "✓ judged: 1.00 pass" in read_until(process.stdout, "judged:")
        assert process.wait(30) == 0


def test_evaluator_option_uses_the_settings_of_the_evaluator(judges: Project) -> None:
    code, shown = judged(judges, *CASE, "--evaluator", "asks")
    assert code == 0
    assert shown["cwd"] == str(judges.root / "evals")
    assert shown["payload"]["config"] == {"word": "Paris"}
    assert shown["stderr"] == ["colour blue"]
    assert shown["result"]["judge_proxy"]["max_calls"] == 3
    assert (shown["result"]["name"], shown["judged"], shown["exit_code"]) == ("asks", True, 0)
    assert [call["question"] for call in shown["calls"]] == ["Is this right?\nThe capital of France is Paris."]


def test_inline_checks_and_metrics_are_run(judges: Project) -> None:
    judges.write(
        "evals/inline.yaml",
        """\
        evalcases:
          - id: one
            input: x
            evaluators:
              - {name: short, type: python, value: "print('looked') or len(answer) < 9"}
              - {name: json_correctness, type: metric, schema: {type: object}}
        """,
    )
    arguments = ("judge", "run", "--suite", "evals/inline.yaml", "--answer", "Paris")
    short = judges.run(*arguments, "--evaluator", "short")
    assert short.returncode == 0, short.stderr
    assert "python: print('looked') or len(answer) < 9" in short.stdout
    assert "stderr   looked" in short.stdout
    assert "judged: 1.00 pass" in short.stdout
    metric = judges.run(*arguments, "--evaluator", "json_correctness")
    assert "judged: 0.00 fail" in metric.stdout
    both = judges.run(*arguments)
    assert "Choose one with --evaluator: `json_correctness` or `short`." in both.stderr
    replaced = judges.run("judge", "run", "evals/judges/plain.py", *arguments[2:], "--evaluator", "short")
    assert "SCRIPT cannot replace the code of 'short', which is a `python` evaluator" in replaced.stderr


def test_script_replaces_the_command_of_the_evaluator(judges: Project) -> None:
    judges.write(
        "elsewhere/other.py", "import os, sys\nprint(os.environ['COLOUR'], file=sys.stderr)\nprint('{\"score\": 1}')\n"
    )
    code, shown = judged(judges, "elsewhere/other.py", *CASE, "--evaluator", "asks")
    assert (code, shown["stderr"]) == (0, ["blue"])
    assert shown["script"] == ["python", str(judges.root / "elsewhere/other.py")]
    assert shown["payload"]["config"] == {"word": "Paris"}


def test_script_without_evaluator_gets_default_judge_access(judges: Project) -> None:
    code, shown = judged(judges, *CASE, "python", "evals/judges/asks.py")
    assert (code, shown["stderr"], shown["payload"]["config"]) == (0, ["colour None"], None)
    assert shown["result"]["judge_proxy"]["max_calls"] == 50
    _, limited = judged(judges, *CASE, "evals/judges/asks.py", "--max-calls", "7", "--judge-target", "assistant")
    assert limited["result"]["judge_proxy"]["max_calls"] == 7
    assert limited["result"]["judge_proxy"]["target"] == "assistant"


def test_command_with_options_follows_double_dash(judges: Project) -> None:
    code, shown = judged(judges, *CASE, "--no-judge", "--", "python", "-c", "print('{\"score\": 0.5}')")
    assert (code, shown["result"]["score"]) == (0, 0.5)
    assert "judge_proxy" not in shown["result"]


def test_script_directory_is_printed_if_it_differs(judges: Project) -> None:
    judges.write("tools/where.py", "import json, os\nprint(json.dumps({'score': 1, 'reasoning': os.getcwd()}))\n")
    evaluator = "{name: where, type: code_judge, cwd: tools, script: [python, where.py]}"
    judges.write("evals/deep/suite.yaml", f"evalcases: [{{id: one, input: x, evaluators: [{evaluator}]}}]\n")
    arguments = ("judge", "run", "--suite", "evals/deep/suite.yaml", "--answer", "Paris")

    shown = json.loads(judges.run(*arguments, "--json").stdout)

    assert shown["cwd"] == shown["result"]["reasoning"] == str(judges.root / "tools")
    assert f"python where.py  (in {judges.root / 'tools'})" in judges.run(*arguments, env={"COLUMNS": "300"}).stdout


def test_no_judge_option_starts_no_proxy(judges: Project) -> None:
    judges.write("env.py", "import os\nprint('{\"score\": %d}' % ('AGENTV_JUDGE_PROXY_URL' in os.environ))\n")
    assert judged(judges, *CASE, "env.py")[1]["result"]["score"] == 1
    assert judged(judges, *CASE, "env.py", "--no-judge")[1]["result"]["score"] == 0


def test_answer_and_outputs_options_make_no_target_call(judges: Project) -> None:
    judges.write("agentv.config.yaml", "targets: {a: {provider: openai, model: m, api_key: '${{ NO_SUCH_KEY }}'}}\n")
    options = (*CASE, "--evaluator", "plain")
    assert judged(judges, *options, "--answer", "Lyon")[1]["result"]["score"] == 0
    assert judged(judges, *options, "--answer", "Paris")[1]["result"]["score"] == 1
    judges.write("answers.jsonl", '{"eval_id": "france", "candidate_answer": "Paris, I think"}\n')
    code, shown = judged(judges, *options, "--outputs", "answers.jsonl")
    assert (code, shown["payload"]["candidate_answer"]) == (0, "Paris, I think")


def test_one_of_several_recorded_answers_is_judged_with_a_note(judges: Project) -> None:
    lines = [
        {"eval_id": "france", "candidate_answer": f"Paris {a}", "target": t, "attempt": a} for t in "ab" for a in (2, 3)
    ]
    judges.write("answers.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    done = judges.run("judge", "run", "--json", *CASE, "--evaluator", "plain", "--outputs", "answers.jsonl")
    shown = json.loads(done.stdout)
    assert (shown["payload"]["target"], shown["payload"]["attempt"]) == ("a", 2)
    assert "using target 'a', attempt 2" in done.stderr
    _, other = judged(judges, *CASE, "--evaluator", "plain", "--outputs", "answers.jsonl", "--target", "b")
    assert other["payload"]["target"] == "b"


def test_saved_payload_can_be_judged_again(judges: Project) -> None:
    assert judges.run("judge", "run", *CASE, "--evaluator", "asks", "--save-payload", "p.json").returncode == 0
    saved = json.loads((judges.root / "p.json").read_text(encoding="utf-8"))
    code, shown = judged(judges, "evals/judges/asks.py", "--payload", "p.json")
    assert code == 0
    assert shown["payload"] == saved
    assert shown["result"]["details"] == {"word": "Paris"}
    assert (shown["eval_id"], shown["target"], shown["suite"]) == ("france", "assistant", "suite")
    assert shown["result"]["judge_proxy"]["target"] == "strict"


def test_payload_from_stdin_can_omit_keys(judges: Project) -> None:
    judges.write("keys.py", "import json, sys\nprint(json.dumps({'score': 1, 'details': json.load(sys.stdin)}))\n")
    code, shown = judged(judges, "keys.py", "--payload", "-", stdin='{"candidate_answer": "Paris", "extra": 1}')
    assert code == 0
    got = shown["result"]["details"]
    assert (got["candidate_answer"], got["extra"]) == ("Paris", 1)
    assert (got["input_messages"], got["metadata"], got["config"]) == ([], {}, None)


def test_payload_without_configuration_runs_without_judge_access(project: Project) -> None:
    project.write("plain.py", "print('{\"score\": 1}')\n")
    done = project.run("judge", "run", "plain.py", "--payload", "-", stdin="{}")
    assert done.returncode == 0
    assert "runs without judge access" in done.stderr
    asked = project.run("judge", "run", "plain.py", "--payload", "-", "--max-calls", "2", stdin="{}")
    assert asked.returncode == 3
    assert "no target configuration was found. Its script was not started" in " ".join(asked.stdout.split())


WRONG = {
    "nothing printed": ("pass", "the script printed nothing."),
    "a bad score": ('print(\'{"score": "high"}\')', 'score must be a number from 0 to 1, got "high".'),
    "an exit code": ("import sys; sys.exit('no way')", "no way (the script exited with code 1)."),
    "too many calls": (
        "from agentv_eval import create_judge_proxy_client as c\n"
        "j = c()\ntry: [j.invoke(question=str(n)) for n in range(9)]\nexcept Exception: pass\nprint('{\"score\": 1}')",
        "the script exceeded its judge call limit of 2 (1 refused).",
    ),
}


@pytest.mark.parametrize(("script", "message"), WRONG.values(), ids=WRONG.keys())
def test_script_errors_are_reported_as_in_a_run_with_exit_code_3(judges: Project, script: str, message: str) -> None:
    judges.write("evals/judges/wrong.py", script + "\n")
    done = judges.run("judge", "run", "evals/judges/wrong.py", *CASE, "--max-calls", "2")
    assert done.returncode == 3
    assert "✗ could not judge" in done.stdout
    assert message in " ".join(done.stdout.split())
    code, shown = judged(judges, "evals/judges/wrong.py", *CASE, "--max-calls", "2")
    judges.write(
        "evals/wrong.yaml",
        """\
        evalcases:
          - id: france
            input: What is the capital of France?
            evaluators: [{name: wrong, type: code_judge, script: [python, judges/wrong.py], judge: {max_calls: 2}}]
        """,
    )
    assert judges.run("eval", "evals/wrong.yaml", "--quiet").returncode == 3
    (result,) = judges.rows()[0]["evaluator_results"]
    assert (code, shown["error"]["message"]) == (3, result["error"])


def test_rejected_and_failed_calls_are_printed_with_the_reason(judges: Project) -> None:
    judges.write(
        "evals/judges/tries.py",
        """\
        from agentv_eval import JudgeProxyError, code_judge

        @code_judge
        def tries(input, judge):
            for target in ("missing", "broken", None, None):
                try:
                    judge.invoke(question="well?", target=target)
                except JudgeProxyError:
                    pass
            return 1
        """,
    )
    done = judges.run("judge", "run", "evals/judges/tries.py", *CASE, "--max-calls", "2", env={"COLUMNS": "300"})
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith("refused  unknown target 'missing'") for line in lines)
    assert any(line.startswith("judge 1  broken, failed (judge_failed)") for line in lines)
    assert any(line.startswith("failed   judge target 'broken' failed") and "HTTP 500" in line for line in lines)
    assert any(line.startswith("refused  this call would exceed the judge call limit of 2") for line in lines)
    assert lines[-1].startswith("Judge    strict: 2 of 2 calls, 1 refused, 1 failed, 1 of them to broken")


def test_failing_target_exits_with_3(judges: Project) -> None:
    code, shown = judged(judges, *CASE, "--evaluator", "plain", "--target", "broken")
    assert (code, shown["judged"], shown["result"]) == (3, False, None)
    assert shown["error"]["stage"] == "target"
    assert "HTTP 500" in shown["error"]["message"]


def test_script_is_not_started_without_its_judge(judges: Project) -> None:
    code, shown = judged(judges, *CASE, "--evaluator", "asks", "--judge-target", "none")
    assert code == 3
    assert "has judge access, but no judge is available" in shown["error"]["message"]
    assert shown["stderr"] == []


def test_secrets_are_masked_in_output_and_saved_payload(judges: Project) -> None:
    judges.write(
        "leaks.py",
        f"""\
        import sys
        for part in ("{KEY[:9]}", "{KEY[9:]}"):
            sys.stderr.write(part)
            sys.stderr.flush()
        print('{{"score": 1, "reasoning": "{KEY}"}}')
        """,
    )
    options = ("leaks.py", *CASE, "--answer", f"my key is {KEY}", "--save-payload", "p.json")
    for more in ((), ("--full",), ("--json",)):
        done = judges.run("judge", "run", *options, *more, env={"JUDGE_KEY": KEY})
        assert done.returncode == 0
        assert KEY not in done.stdout + done.stderr + (judges.root / "p.json").read_text()
        assert done.stdout.count("[redacted]") >= 3


def test_control_sequences_are_not_printed(judges: Project) -> None:
    judges.write("rude.py", "import sys\nprint('a\\x1b[2Jb\\x07', file=sys.stderr)\nprint('{\"score\": 1}')\n")
    done = judges.run("judge", "run", "rude.py", *CASE, "--answer", "\x1b]0;title\x07hello")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "stderr   ab" in done.stdout


USAGE_ERRORS = {
    "nothing to judge": (("x.py",), "Specify what to judge"),
    "both": (("--suite", "evals/suite.yaml", "--payload", "-"), "Specify what to judge"),
    "a payload and a case": (("--payload", "-", "--case", "france"), "--case can only be used with --suite"),
    "a payload alone": (("--payload", "-"), "needs a script to run"),
    "several cases": (("--suite", "evals/suite.yaml"), "select one with --case"),
    "no such case": (("--suite", "evals/suite.yaml", "--case", "frence"), "did you mean `france`"),
    "no such script": (("gone.py", *CASE), "There is no file or directory 'gone.py'"),
    "several scripts": (CASE, "case 'france' has 2 evaluators that run a script"),
    "no script": (("--suite", "evals/suite.yaml", "--case", "italy"), "has no evaluators that run a script"),
    "no such evaluator": ((*CASE, "--evaluator", "ask"), "no evaluator with this name (did you mean `asks`?)"),
    "no code_judge": ((*CASE, "--evaluator", "contains"), "is a `contains`, which runs no script"),
    "no access": ((*CASE, "--evaluator", "plain", "--max-calls", "2"), "has no judge access"),
    "conflicting options": (
        (*CASE, "--evaluator", "asks", "--no-judge", "--max-calls", "2"),
        "cannot be used together",
    ),
    "two answers": ((*CASE, "--answer", "x", "--outputs", "y"), "cannot be used together"),
    "unknown judge": ((*CASE, "--evaluator", "asks", "--judge-target", "strikt"), "strict"),
    "no payload file": (("evals/judges/plain.py", "--payload", "gone.json"), "cannot read the file"),
    "bad payload": (("evals/judges/plain.py", "--payload", "evals/suite.yaml"), "is not JSON"),
    "a shell": (("python x.py | tee", *CASE), "needs a shell"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE_ERRORS.values(), ids=USAGE_ERRORS.keys())
def test_usage_error_is_reported_and_nothing_is_run(judges: Project, arguments: tuple[str, ...], message: str) -> None:
    done = judges.run("judge", "run", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_the_script_and_exits_with_130(judges: Project) -> None:
    judges.write(
        "evals/judges/sleeps.py",
        "import os, sys, time\nprint('pid', os.getpid(), file=sys.stderr, flush=True)\ntime.sleep(60)\n",
    )
    with started(judges, "run", "evals/judges/sleeps.py", *CASE) as process:
        read_until(process.stdout, "stderr   pid")
        script = str(judges.root / "evals" / "judges" / "sleeps.py")
        assert len(alive_with(script)) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert not alive_with(script)


# -- watching


def saved(path: Path, text: str) -> None:
    """Save a file atomically, as editors do."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def test_watch_reruns_a_saved_script_and_reuses_the_answer(judges: Project) -> None:
    """The target is a program that counts its calls."""
    judges.write("count.sh", "echo x >> calls\necho Paris\n")
    judges.write("agentv.config.yaml", "targets: {app: {provider: cli, command: [sh, count.sh]}}\n")
    script = judges.write("evals/judges/plain.py", "print('{\"score\": 0.25}')\n")
    with started(judges, "run", *CASE, "--evaluator", "plain", "--watch") as process:
        first = read_until(process.stdout, "press Ctrl-C to stop")
        assert first.startswith("─── run 1, ")
        assert "judged: 0.25" in first
        saved(script, "print('{\"score\": 1}')\n")
        second = read_until(process.stdout, "press Ctrl-C to stop")
        assert "─── run 2, " in second
        assert "evals/judges/plain.py saved" in second
        assert "judged: 1.00 pass" in second
        assert "Payload  unchanged" in second
        suite = judges.root / "evals/suite.yaml"
        saved(suite, suite.read_text() + "# changed\n")
        assert "run 3, " in read_until(process.stdout, "press Ctrl-C to stop")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert (judges.root / "calls").read_text() == "x\nx\n"


def test_watch_continues_after_a_broken_suite(judges: Project) -> None:
    good = (judges.root / "evals/suite.yaml").read_text()
    with started(judges, "run", *CASE, "--evaluator", "plain", "--watch") as process:
        read_until(process.stdout, "press Ctrl-C to stop")
        saved(judges.root / "evals/suite.yaml", "evalcases: [\n")
        assert "judged" not in read_until(process.stdout, "press Ctrl-C to stop")
        assert "not valid YAML" in read_until(process.stderr, "not valid YAML")
        saved(judges.root / "evals/suite.yaml", good)
        assert "judged: 1.00 pass" in read_until(process.stdout, "press Ctrl-C to stop")


def test_watch_cancels_a_running_script_on_save(judges: Project) -> None:
    hangs = "import sys, time\nprint('hanging', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    script = judges.write("slow.py", hangs)
    with started(judges, "run", "slow.py", "--payload", "p.json", "--watch") as process:
        read_until(process.stdout, "press Ctrl-C to stop")  # there is no payload yet
    judges.write("p.json", "{}")
    with started(judges, "run", "slow.py", "--payload", "p.json", "--watch") as process:
        read_until(process.stdout, "stderr   hanging")
        saved(script, "print('{\"score\": 1}')\n")
        second = read_until(process.stdout, "judged:")
        assert "the previous run was cancelled" in second
        saved(judges.root / "p.json", '{"candidate_answer": "x"}')
        assert "p.json saved" in read_until(process.stdout, "judged:")


IMPORTING = """\
import json
import os
import sys
{before}
import prompts
if False:
    import litellm
try:
    from deepeval.metrics import GEval
except ImportError:
    pass
print(json.dumps({{"score": 1}}))
"""
PAYLOAD = '{"question": "q", "candidate_answer": "a"}'


@pytest.mark.parametrize(
    ("before", "env", "warned"),
    [
        ("", {}, ["deepeval", "litellm", "ragas"]),
        ('os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"', {"DEEPEVAL_DISABLE_DOTENV": "1"}, ["litellm", "ragas"]),
        ('os.environ["RAGAS_DO_NOT_TRACK"] = "true"', {}, ["deepeval", "litellm"]),
        ("", {"LITELLM_MODE": "PRODUCTION"}, ["deepeval", "litellm", "ragas"]),
    ],
)
def test_judge_run_warns_about_libraries_without_the_variables_that_stop_their_telemetry(
    project: Project, before: str, env: dict[str, str], warned: list[str]
) -> None:
    project.write("judge.py", IMPORTING.format(before=before))
    project.write("prompts.py", "def metric():\n    from ragas.metrics import Faithfulness\n    import prompts\n")
    project.write("payload.json", PAYLOAD)
    done = project.run("judge", "run", "judge.py", "--payload", "payload.json", "--no-judge", env=env)
    assert done.returncode == 0, done.stderr
    assert [line.split()[3].rstrip(",") for line in done.stderr.splitlines() if "imports" in line] == warned
    if "LITELLM_MODE" in env:
        assert '`env: {LITELLM_LOCAL_MODEL_COST_MAP: "True"}`' in done.stderr
