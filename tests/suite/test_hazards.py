"""Hostile files (alias bombs, custom tags, odd bytes, depth, length) are rejected quickly and in little memory."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agentv.errors import SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.loader import MAX_PROBLEMS, load_suite
from tests.suite.support import EVALUATORS, cases, load, only_problem, problems, problems_in, write

MEASURED = """\
import re, sys, time
from pathlib import Path
from agentv.errors import SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.loader import load_suite
try:
    for case in load_suite(Path(sys.argv[1]), EvaluatorReader()).cases():
        pass
    print("loaded")
except SuiteError as error:
    print(error)
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))
print(f"{time.process_time():.2f} {peak / 1024:.1f}")
"""


def measured(path: Path) -> tuple[str, float, float]:
    """The output, CPU seconds and MiB of memory of loading a suite in its own process, start-up included.

    Not measured with `ru_maxrss`, which a process inherits from its parent.
    """
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    output, _, numbers = run.stdout.rstrip("\n").rpartition("\n")
    seconds, memory = numbers.split()
    return output, float(seconds), float(memory)


def bomb(levels: int = 30, width: int = 10, end: str = "lol") -> str:
    lines = [f"x-0: &a0 {end}"]
    lines += [f"x-{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        bomb() + EVALUATORS + "evalcases:\n- {id: a, input: x}\n",
        bomb(5) + EVALUATORS + "evalcases:\n- {id: a, input: x, metadata: {m: [" + "*a4, " * 20 + "]}}\n",
        bomb(4, 50, "{role: user, content: x}") + EVALUATORS + "evalcases:\n- {id: a, input: *a3}\n",
        "x-0: &a0 {k: v}\n"
        + "".join(f"x-{i}: &a{i} {{a: *a{i - 1}, b: *a{i - 1}, <<: *a{i - 1}}}\n" for i in range(1, 60))
        + "evalcases: []\n",
        EVALUATORS
        + "x-m: &m ["
        + "{role: user, content: x}, " * 5000
        + "]\nevalcases:\n"
        + "".join(f"- {{id: {i}, input: *m}}\n" for i in range(5000)),
    ],
    ids=["nested lists", "in metadata", "as messages", "merges", "a long list everywhere"],
)
def test_alias_bomb_is_rejected_quickly_and_in_little_memory(tmp_path, text):
    output, seconds, memory = measured(write(tmp_path, text))
    assert "aliases expand to more than" in output
    assert "use fewer aliases or write the values out" in output
    assert seconds < 20
    assert memory < 200


def test_large_suite_may_share_parts_by_alias(tmp_path):
    text = (
        "x-judges: &judges [{name: a, type: contains, value: x}, {name: b, type: is_json}]\n"
        "x-base: &base {threshold: 1}\n"
        "evalcases:\n" + "".join(f"- {{<<: *base, id: {i}, input: x, evaluators: *judges}}\n" for i in range(3000))
    )
    assert len(load(tmp_path, text).ids) == 3000


def test_aliases_do_not_circumvent_the_depth_limit(tmp_path):
    lines = ["x-0: &a0 " + "[" * 60 + "]" * 60]
    lines += [f"x-{i}: &a{i} [[*a{i - 1}]]" for i in range(1, 60)]
    text = "\n".join(lines) + "\n" + EVALUATORS + "evalcases: [{id: a, input: x, metadata: {m: *a59}}]\n"
    assert only_problem(tmp_path, text).endswith("nested more than 100 levels deep")


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch {mark}']",
        "!!python/object/new:os.system ['touch {mark}']",
        "!!python/name:os.system",
        "!!python/tuple [1]",
        "!custom {{a: 1}}",
        "!!binary aGk=",
        "!!set {{a}}",
        "!!timestamp 2024-01-01",
        "!!seq {{a: 1}}",
        "!!map [a]",
        "!!map text",
    ],
)
@pytest.mark.parametrize("where", ["input", "metadata", "x"])
def test_custom_tag_is_rejected_and_nothing_is_executed(tmp_path, value, where):
    mark = tmp_path / "executed"
    text = f"{EVALUATORS}evalcases:\n- id: a\n  {where}: {value.format(mark=mark)}\n"
    message = only_problem(tmp_path, text)
    assert "is not allowed here; use plain YAML values" in message
    assert message.startswith(f"4:{5 + len(where)}: the tag `!")
    assert not mark.exists()


def test_custom_tag_is_rejected_on_keys_lists_and_the_root(tmp_path):
    for text in ("!!python/dict {evalcases: []}\n", "evalcases: !!python/tuple []\n", "!!python/name:x a: 1\n"):
        assert "is not allowed here" in only_problem(tmp_path, text)


def test_core_schema_tags_are_supported(tmp_path):
    (case,) = cases(
        tmp_path,
        EVALUATORS
        + "evalcases: !!seq\n- !!map\n  !!str id: !!str 5\n  input: ! 6\n"
        + '  metadata: {a: !!int "7", b: !!float 1, c: !!null ""}\n',
    )
    assert (case.id, case.question, case.metadata) == ("5", "6", {"a": 7, "b": 1, "c": None})
    assert "is not a valid value for the tag !!int" in only_problem(tmp_path, "evalcases: !!int x\n")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"evalcases:\n- id: a\n  input: x\x00y\n", "3:11: the character #x00 is not allowed in YAML; remove it"),
        (b"evalcases:\n- id: \xc3\xa9\xff\n", "2:8: the file is not UTF-8 (invalid leading UTF-8 octet); save it as"),
        ("evalcases: []\n".encode("utf-16"), "1:1: the file is UTF-16; save it as UTF-8"),
        ("evalcases: []\n".encode("utf-16-be"), "the character #x00 is not allowed in YAML"),
        (b"\xff\xff\xff\xff", "1:1: the file is not UTF-8"),
        (
            b"x-a: 1\nevalcases:\n- {id: a, input: x, evaluators: [{type: is_json}]}\n---\nb: 2\n",
            "4:1: a second YAML document starts here (`---`); only one per file is allowed",
        ),
        (b"evalcases:\n\t- id: a\n", "2:1: not valid YAML: found character that cannot start any token"),
        (b"evalcases:\n- id: a\n  input: what: this\n", "3:14: not valid YAML: mapping values are not allowed"),
        (b"evalcases:\n- id: 'a\n", "3:1: not valid YAML: found unexpected end of stream"),
        (b"x-a: [a, b\n", "2:1: not valid YAML: did not find expected ',' or ']'"),
        (b"evalcases:\n- *unset\n", "2:3: alias *unset has no matching anchor &unset before it"),
        (b"x-a: &a [*a]\n", "1:10: alias *a has no matching anchor &a before it"),
        (b"[1]: x\nevalcases: []\n", "1:1: a key must be a plain string"),
        (b"<<: 5\nevalcases: []\n", "1:1: `<<` must be a mapping (usually an alias) or a list of mappings"),
        (b"evalcases: " + b"[" * 1000 + b"]" * 1000, "nested more than 100 levels deep"),
        (b"evalcases: " + b"{a: " * 1000, "nested more than 100 levels deep"),
        (b"evalcases:\n" + b"".join(b" " * i + b"-\n" for i in range(1, 1000)), "nested more than 100 levels"),
        (b"%YAML 9.9\n---\nevalcases: []\n", "not valid YAML"),
        (b"\x1b[31m: x\n", "the character #x1b is not allowed in YAML"),
    ],
)
def test_odd_bytes_and_invalid_yaml_are_reported_with_positions(tmp_path, data, expected):
    assert expected in only_problem(tmp_path, data)


@pytest.mark.parametrize(
    "text",
    [
        EVALUATORS + "evalcases: [{id: a, input: " + "x" * 10_000_000 + "}]",
        EVALUATORS + "evalcases: [{id: a, input: x, '" + "x" * 10_000_000 + "': 1}]",
        EVALUATORS + "evalcases: [{id: " + "x" * 5_000_000 + ", input: x}, {id: " + "x" * 5_000_000 + ", input: x}]",
        "x" * 10_000_000,
        '{"evalcases": "' + "\\u00e9" * 1_600_000 + '"}',
        EVALUATORS + "evalcases: [" + "a, " * 3_000_000 + "]",
    ],
    ids=["a value", "a key", "ids", "all of it", "escapes", "many small items"],
)
def test_line_of_ten_megabytes_is_read_quickly(tmp_path, text):
    output, seconds, memory = measured(write(tmp_path, text))
    assert len(output.split("\n")[0]) < 500
    assert seconds < 20
    assert memory < 200


def test_reading_stops_after_too_many_problems(tmp_path):
    messages = problems(tmp_path, "evalcases: [" + "a, " * 50_000 + "]")
    assert len(messages) == MAX_PROBLEMS + 2
    assert messages[0] == "1:1: more than 10,000 problems; the rest of the suite was not read"


def test_merges_and_aliases_are_resolved(tmp_path):
    (first, second) = cases(
        tmp_path,
        """\
        x-one: &one {threshold: 0.5, conversation_id: one}
        x-two: &two {conversation_id: two, metadata: &meta {a: 1}}
        x-judges: &judges
          - {name: has, type: contains, value: &text Paris}
        &key evalcases:
          - {<<: [*one, *two], id: a, input: *text, evaluators: *judges}
          - <<: *two
            id: b
            input: x
            conversation_id: own
            metadata: {<<: *meta, b: *meta, "<": plain}
            evaluators: *judges
        """,
    )
    assert (first.threshold, first.conversation_id, first.question, first.metadata) == (0.5, "one", "Paris", {"a": 1})
    assert (second.threshold, second.conversation_id) == (None, "own")
    assert second.metadata == {"a": 1, "b": {"a": 1}, "<": "plain"}


def test_root_may_merge_and_cases_may_be_an_alias(tmp_path):
    suite = load(
        tmp_path,
        """\
        x-head: &head
          dataset: merged
          execution: {evaluators: [{type: is_json}]}
        x-cases: &cases
          - {id: a, input: True}
          - {id: b, input: x}
        <<: *head
        evalcases: *cases
        """,
    )
    assert (suite.name, suite.ids) == ("merged", ("a", "b"))
    assert [case.question for case in suite.cases()] == ["True", "x"]


# -- the suite file itself


def test_pipe_is_rejected_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    assert problems_in(tmp_path / "pipe.yaml") == ["1:1: the suite file is not a regular file"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dev/zero", "the suite file is not a regular file"),
        ("/proc/self/mem", "the suite cannot be read: Input/output error"),
        ("nowhere.yaml", "the suite file does not exist"),
        (".", "the suite file is a directory, not a file"),
        ("loop.yaml", "the suite file cannot be read: Too many levels of symbolic links"),
        ("x" * 300, "the suite file cannot be read: File name too long"),
        ("nul\0.yaml", "the suite file does not exist"),
    ],
)
def test_unreadable_suite_is_reported_with_the_reason(tmp_path, path, expected):
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    assert problems_in(tmp_path / path) == [f"1:1: {expected}"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_suite_without_read_permission_is_reported(tmp_path):
    path = write(tmp_path, "evalcases: []\n")
    path.chmod(0)
    assert problems_in(path) == ["1:1: the suite file cannot be read: Permission denied"]


def test_sparse_suite_of_one_gigabyte_is_rejected_quickly(tmp_path):
    path = write(tmp_path, EVALUATORS)
    os.truncate(path, 2**30)
    output, seconds, memory = measured(path)
    assert "the character #x00 is not allowed" in output
    assert seconds < 20
    assert memory < 200


def test_invalid_input_always_raises_suite_error(tmp_path):
    for data in (b"\xef\xbb\xbf", b"\x00", b"- - -", b"? a", b"!<tag:x> a", b"&a *a", b"|", b'"\\x"', b"{{}: 1}"):
        with pytest.raises(SuiteError):
            load_suite(write(tmp_path, data), EvaluatorReader())
        with pytest.raises(SuiteError):
            load_suite(write(tmp_path, data, "suite.jsonl"), EvaluatorReader())


def test_loading_a_suite_does_not_import_slow_libraries(tmp_path):
    code = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from agentv.evaluators.reader import EvaluatorReader
        from agentv.suite.loader import load_suite
        load_suite(Path({str(write(tmp_path, EVALUATORS + "evalcases: [{id: a, input: x}]"))!r}), EvaluatorReader())
        slow = {{"httptools", "jsonschema", "rich", "regex", "asyncio"}} & set(sys.modules)
        assert not slow, slow
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", ["suite.yaml", "suite.jsonl"])
def test_memory_use_grows_with_ids_and_not_with_cases(tmp_path, name):
    filler = "many words " * 50

    def peak(count: int) -> float:
        if name.endswith(".jsonl"):
            case = '{"id": "case-%d", "input": "' + filler + '", "evaluators": [{"type": "is_json"}]}\n'
            text = "".join(case % number for number in range(count))
        else:
            case = "- id: case-%d\n  input: " + filler + "\n  metadata: {a: [1, 2, 3]}\n"
            text = EVALUATORS + "evalcases:\n" + "".join(case % number for number in range(count))
        return measured(write(tmp_path, text, name))[2]

    assert peak(5_000) - peak(100) < 4
