"""Conversations: several turns of one case, written in the suite or by a model that plays the user."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

CONFIG = """\
    targets:
      bot:
        provider: mock
        response: "Hello?"
        rules:
          - {match: "Order 12", response: "Your refund is on its way."}
          - {match: "(?s)Ann.*What is my name", response: "You are Ann."}
          - {match: "Ann", response: "Hi Ann."}
          - {match: "money back", response: "Which order?"}
      customer:
        provider: mock
        response: "I want my money back."
        cost_usd: 0.5
        rules:
          - {match: "refund is on its way", response: "[[END OF CONVERSATION]]"}
          - {match: "Which order", response: "Order 12, now!"}
    defaults: {target: bot}
    """
TURNS = """\
    evalcases:
      - id: names
        aggregation: AGGREGATION
        turns:
          - input: My name is Ann.
            evaluators: [{type: contains, value: Ann}]
          - input: What is my name?
            reference_answer: "You are Ann."
            evaluators: [{type: equals}, {type: contains, value: Bob}]
          - input: "Thank you."
    """
SIMULATED = """\
    evalcases:
      - id: refund
        user: {target: customer, persona: An impatient customer, max_turns: 4, stop_when: a refund is promised}
        evaluators: [{type: contains, value: refund}]
    """


@pytest.fixture
def talk(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    return project


@pytest.mark.parametrize(("aggregation", "score"), [("mean", 0.75), ("min", 0.5), ("last", 0.5)])
def test_each_turn_is_answered_with_the_history_and_judged_by_its_evaluators(
    talk: Project, aggregation: str, score: float
) -> None:
    talk.write("suite.yaml", TURNS.replace("AGGREGATION", aggregation))
    assert talk.run("eval", "suite.yaml").returncode == 1
    (row,) = talk.rows()
    assert [turn["answer"] for turn in row["turns"]] == ["Hi Ann.", "You are Ann.", "You are Ann."]
    assert row["candidate_answer"] == "You are Ann."
    (turns,) = row["evaluator_results"]
    assert (turns["name"], turns["score"], row["score"]) == ("turns", score, score)
    assert [(each["name"], each["score"]) for each in turns["evaluator_results"]] == [("turn 1", 1), ("turn 2", 0.5)]
    assert "turn 2: does not contain 'Bob'" in row["misses"]
    shown = talk.run("show", "names").stdout
    assert "Conversation  3 turns\n  turn 1: user\n    My name is Ann." in shown
    assert shown.index("What is my name?") < shown.index("You are Ann.") < shown.index("Thank you.")


def test_model_plays_the_user_until_it_stops(talk: Project) -> None:
    talk.write("suite.yaml", SIMULATED)
    assert talk.run("eval", "suite.yaml", "--run-dir", "run").returncode == 0
    (row,) = talk.rows(talk.root / "run")
    asked = [turn["input_messages"][0]["content"] for turn in row["turns"]]
    assert asked == ["I want my money back.", "Order 12, now!"]
    assert [turn["user_cost_usd"] for turn in row["turns"]] == [0.5, 1.0]  # the reply that ended it, too
    summary = json.loads(talk.run("eval", "suite.yaml", "--replay", "run", "--json").stdout)
    assert (summary["passed"], summary["cost_usd"]) == (1, 0)
    assert talk.manifest(talk.root / "run")["summary"]["cost_usd"] == 1.5
    assert talk.run("convert", "run", "--to", "jsonl", "--out", "rows.jsonl").returncode == 0
    exported = json.loads((talk.root / "rows.jsonl").read_text())
    assert exported["question"] == "@[User]:\nI want my money back.\n\n@[User]:\nOrder 12, now!"


MERGED = """\
      - id: names
        turns:
          - input:
              - {role: user, content: My name is Ann.}
          - input: What is my name?
        evaluators: [{type: contains, value: Ann}]
    """


def test_changed_conversation_is_not_replayed(talk: Project) -> None:
    suite = SIMULATED.rstrip(" ") + MERGED
    talk.write("suite.yaml", suite)
    assert talk.run("eval", "suite.yaml", "--run-dir", "run").returncode == 0
    for before, after, expected in (
        ("An impatient", "A patient", "its `user` differs in line 2: recorded 'persona: An impatient customer', now"),
        ("max_turns: 4", "max_turns: 3", "its `user` differs in line 3: recorded 'max_turns: 4', now 'max_turns: 3'"),
        (", stop_when: a refund is promised", "", "recorded 'stop_when: a refund is promised', now nothing"),
        ("target: customer", "target: bot", "recorded 'target: customer', now 'target: bot'"),
        ("user: {", "turns: [{input: Hello}]\n        # {", "case 'refund' has changed since run"),
        (
            "          - input: What is my name?\n",
            "              - {role: user, content: What is my name?}\n",
            "its list of turns differs in line 3: recorded 'turn 2:', now 'What is my name?'",
        ),
    ):
        assert before in suite
        talk.write("suite.yaml", suite.replace(before, after))
        again = talk.run("eval", "suite.yaml", "--replay", "run")
        assert again.returncode == 3, again.stdout
        errors = [row["error"]["message"] for row in talk.rows() if row["error"] is not None]
        assert len(errors) == 1
        assert expected in errors[0]


def test_conversation_ends_after_max_turns_and_begins_with_the_input(talk: Project) -> None:
    text = SIMULATED.replace("max_turns: 4", "max_turns: 1").replace("user:", "input: My name is Ann.\n        user:")
    talk.write("suite.yaml", text.replace("value: refund", "value: Hi Ann"))
    assert talk.run("eval", "suite.yaml").returncode == 0
    (row,) = talk.rows()
    assert [turn["answer"] for turn in row["turns"]] == ["Hi Ann."]


def test_judge_sees_the_whole_conversation(talk: Project) -> None:
    config = CONFIG.replace(
        "defaults: {target: bot}",
        "  judge: {provider: cli, command: [sh, judge.sh]}\n    defaults: {target: bot, judge_target: judge}",
    )
    talk.write("agentv.config.yaml", config)
    reply = '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}'
    talk.write("judge.sh", f"cat >> seen.txt\necho '{reply}'\n")
    text = TURNS.replace("AGGREGATION", "mean").replace("{type: contains, value: Bob}", "{type: llm_judge}")
    talk.write("suite.yaml", text + "        evaluators: [{type: llm_judge}]\n")
    assert talk.run("eval", "suite.yaml").returncode == 0
    prompts = (talk.root / "seen.txt").read_text().split("Grade the answer.\n\n---")[1:]
    of_turn, of_case = sorted(prompts, key=lambda prompt: "Thank you." in prompt)
    assert "What is my name?" in of_turn
    assert "Thank you." not in of_turn
    assert of_case.index("What is my name?") < of_case.index("You are Ann.") < of_case.index("Thank you.")


def test_failed_turn_is_an_error_of_the_case(talk: Project) -> None:
    talk.write("agentv.config.yaml", CONFIG.replace('response: "You are Ann."', "error: out of memory"))
    talk.write("suite.yaml", TURNS.replace("AGGREGATION", "mean"))
    assert talk.run("eval", "suite.yaml").returncode == 3
    (row,) = talk.rows()
    assert "turn 2: " in row["error"]["message"]
    assert "out of memory" in row["error"]["message"]


def test_empty_reply_of_the_user_is_an_error_and_its_messages_are_the_question(talk: Project) -> None:
    talk.write("agentv.config.yaml", CONFIG.replace('response: "Order 12, now!"', 'response: " "'))
    talk.write("suite.yaml", SIMULATED)
    assert talk.run("eval", "suite.yaml", "--run-dir", "empty").returncode == 3
    (row,) = talk.rows(talk.root / "empty")
    assert row["error"]["message"].startswith("the user of turn 2: the model that plays the user wrote nothing")
    assert [turn["answer"] for turn in row["turns"]] == ["Which order?"]
    talk.write("suite.yaml", SIMULATED.replace("max_turns: 4", "max_turns: 1"))
    assert "question: I want my money back." in talk.run("eval", "suite.yaml").stdout


def test_system_message_applies_from_its_turn_on(talk: Project) -> None:
    talk.write("agentv.config.yaml", "targets: {bot: {provider: cli, command: [sh, bot.sh]}}\n")
    talk.write("bot.sh", "cat >> seen.txt\necho ---- >> seen.txt\necho done\n")
    said = "[{role: system, content: Rule NUMBER.}, {role: user, content: Message NUMBER.}]"
    turns = "".join(f"          - input: {said.replace('NUMBER', number)}\n" for number in "12")
    text = f"    prompts: [{{id: p, system_prompt: Be kind.}}]\n    evalcases:\n      - id: a\n        turns:\n{turns}"
    talk.write("suite.yaml", text + "        evaluators: [{type: equals, value: done}]\n")
    assert talk.run("eval", "suite.yaml").returncode == 0
    first, second, _ = (talk.root / "seen.txt").read_text().split("----\n")
    assert first == "Be kind.\n\nRule 1.\n\nMessage 1."
    assert second.startswith("Be kind.\n\nRule 1.\n\nRule 2.\n\n@[User]:\nMessage 1.\n\n@[Assistant]:\ndone")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("turns: []", "`turns` must"),
        ("turns: [{}]", "`input` is missing"),
        ("turns: [{input: x}]\n        input: y", "`input` and `turns` exclude each other: keep one"),
        ("input: x\n        aggregation: min", "`aggregation` can only be used with `turns`"),
        ("turns: [{input: x, evaluators: [{type: equals}]}]", "'equals' has nothing to compare the answer with"),
        ("turns: [{input: x, evaluators: [{type: equls}]}]", "unknown evaluator type 'equls'"),
        ("user: {target: client, persona: x}", "`user` of case 'a' names the unknown target 'client'"),
        ("user: {target: bot}", "`persona` is missing"),
    ],
)
def test_invalid_conversations_are_reported(talk: Project, case: str, expected: str) -> None:
    talk.write("suite.yaml", f"    evalcases:\n      - id: a\n        {case}\n")
    done = talk.run("eval", "suite.yaml")
    assert done.returncode == 2, done.stdout
    assert expected in done.stderr


def test_recorded_conversation_is_graded_again_by_its_turns(talk: Project) -> None:
    talk.write("suite.yaml", TURNS.replace("AGGREGATION", "min").rstrip(" ") + SIMULATED.partition("evalcases:\n")[2])
    first = talk.run("eval", "suite.yaml", "--run-dir", "run", "--json")
    config = CONFIG.replace(
        "targets:", "targets:\n      old: {provider: replay, file: run/results.jsonl, from_target: bot}"
    )
    talk.write("agentv.config.yaml", config.replace('response: "I want my money back."', "error: not called"))
    talk.write("only.yaml", TURNS.replace("AGGREGATION", "min"))
    again = talk.run("eval", "suite.yaml", "--outputs", "run", "--json")
    assert again.returncode == first.returncode == 1, again.stderr
    assert json.loads(again.stdout)["mean_score"] == json.loads(first.stdout)["mean_score"]
    replayed = talk.run("eval", "only.yaml", "--target", "old", "--run-dir", "again")
    assert replayed.returncode == 1, replayed.stderr
    talk.write("other.yaml", TURNS.replace("AGGREGATION", "min").replace("What is my name?", "Who am I?"))
    assert talk.run("eval", "other.yaml", "--target", "old", "--run-dir", "other").returncode == 3
    message = talk.rows(talk.root / "other")[0]["error"]["message"]
    assert "turn 2 differs in line 1: recorded 'What is my name?', now 'Who am I?'" in message
    turns = [[turn["answer"] for turn in talk.rows(talk.root / name)[0]["turns"]] for name in ("run", "again")]
    assert ["Hi Ann.", "You are Ann.", "You are Ann."] in turns
    assert turns[1] == ["Hi Ann.", "You are Ann.", "You are Ann."]
    talk.write("answers.jsonl", '{"eval_id": "names", "candidate_answer": "Hi Ann."}')
    plain = talk.run("eval", "only.yaml", "--outputs", "answers.jsonl")
    assert plain.returncode == 3
    assert "the case has 3 turns, and the answer has 0" in plain.stderr


def test_conversation_with_a_batch_target_is_an_error(talk: Project) -> None:
    talk.write("agentv.config.yaml", "targets: {bot: {provider: cli, command: [cat], provider_batching: true}}\n")
    talk.write("suite.yaml", TURNS.replace("AGGREGATION", "min"))
    assert talk.run("eval", "suite.yaml").returncode == 3
    assert "conversations cannot be sent in batches" in talk.rows()[0]["error"]["message"]
