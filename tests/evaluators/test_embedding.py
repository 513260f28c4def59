"""`similarity` with `metric: embedding`: the model on this machine, and an embeddings API on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentv.evaluators import embedding
from agentv.evaluators.word_pieces import token_ids
from tests.conftest import Project
from tests.evaluators.support import judged, problem_of

installed = pytest.mark.skipif(bool(embedding.missing_packages()), reason="requires the extra `embeddings`")
KEY = "sk-embedding-test-0123456789"


class Embeddings(ThreadingHTTPServer):
    """Embeds a text as counts of two letters. The first `failures` requests get the status 503."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.failures = 0
        self.reply: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Embeddings

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append({"path": self.path, **body})
        self.server.keys.append(self.headers["Authorization"])
        vectors = [[float(text.count("a")), float(text.count("b"))] for text in body["input"]]
        data = self.server.reply or {
            "data": [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)],
            "model": body["model"],
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }
        status = 200
        if self.server.failures:
            self.server.failures -= 1
            status, data = 503, {"error": {"message": f"overloaded, {KEY}"}}
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in http.server
        pass


@pytest.fixture
def server() -> Iterator[Embeddings]:
    with Embeddings() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def evaluated(project: Project, server: Embeddings, *arguments: str, target: str = "vectors") -> dict[str, Any]:
    project.write(
        "agentv.config.yaml",
        f"""\
        targets:
          assistant: {{provider: mock, response: aab}}
          vectors:
            provider: embeddings
            base_url: {server.url}
            model: small
            api_key: ${{{{ VECTORS_KEY }}}}
            retry_initial_delay_ms: 0
            prices: {{input: 1000000, output: 0}}
        defaults: {{target: assistant}}
        """,
    )
    project.write(
        "suite.yaml",
        f"""\
        evalcases:
          - id: one
            input: x
            evaluators:
              - {{type: similarity, metric: embedding, value: abb, target: {target}}}
        """,
    )
    done = project.run("eval", "suite.yaml", *arguments, env={"VECTORS_KEY": KEY})
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return next(iter(project.rows()[0]["evaluator_results"]), {})


def test_target_is_called_once_for_both_strings(project: Project, server: Embeddings) -> None:
    result = evaluated(project, server, "--judge-target", "none")
    assert (result["error"], result["score"]) == (None, 0.8)
    assert server.bodies == [
        {"path": "/v1/embeddings", "model": "small", "input": ["aab", "abb"], "encoding_format": "float"}
    ]
    assert server.keys == [f"Bearer {KEY}"]
    assert (result["judge"]["call_count"], result["judge"]["cost_usd"]) == (1, 7.0)
    recorded = (project.run_dirs()[-1] / "judge_calls.jsonl").read_text(encoding="utf-8")
    assert "0.800000" in recorded


def test_failed_calls_are_retried_and_keys_are_masked(project: Project, server: Embeddings) -> None:
    server.failures = 1
    assert evaluated(project, server)["error"] is None
    assert len(server.bodies) == 2
    server.failures = 10
    error = evaluated(project, server)["error"]
    assert "503" in error
    assert "overloaded" in error
    assert KEY not in error


@pytest.mark.parametrize(
    "reply",
    [
        {"data": [{"embedding": [1.0]}]},
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}]},
        {"data": [{"embedding": "AAAA"}, {"embedding": "AAAA"}]},
        {"choices": []},
    ],
)
def test_other_replies_are_errors(project: Project, server: Embeddings, reply: Any) -> None:
    server.reply = reply
    assert "the reply does not contain two embeddings of the same length" in evaluated(project, server)["error"]


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0], [1e308, 1e308], [10**400, 1]])
def test_embeddings_without_a_direction_are_errors_not_scores(
    project: Project, server: Embeddings, vector: list[float]
) -> None:
    server.reply = {"data": [{"embedding": vector}, {"embedding": [1.0, 0.0]}]}
    error = evaluated(project, server)["error"]
    assert "an embedding in the reply is zero, infinite or not a number, so it cannot be compared" in error


def test_chat_target_is_not_a_similarity(project: Project, server: Embeddings) -> None:
    error = evaluated(project, server, target="assistant")["error"]
    assert "the target 'assistant' returned no similarity" in error
    assert "provider: embeddings" in error


def test_embeddings_target_cannot_answer(project: Project, server: Embeddings) -> None:
    evaluated(project, server, "--target", "vectors")
    assert "it compares two strings and got a conversation" in project.rows()[0]["error"]["message"]
    assert server.bodies == []


def test_unknown_target_is_reported_before_anything_is_called(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {assistant: {provider: mock, response: x}}\n")
    project.write(
        "suite.yaml",
        "evalcases:\n  - id: a\n    input: x\n"
        "    evaluators: [{type: similarity, metric: embedding, target: vectrs, value: x}]\n",
    )
    done = project.run("eval", "suite.yaml")
    assert (done.returncode, project.run_dirs()) == (2, [])
    assert "unknown target 'vectrs'" in done.stderr


def test_target_requires_the_metric() -> None:
    _, message = problem_of("similarity", value="x", target="vectors")
    assert message == "`target` requires `metric: embedding`, got `metric: levenshtein`"


def test_missing_packages_are_reported_before_anything_is_called(project: Project) -> None:
    project.write(
        "blocked/sitecustomize.py",
        """\
        import importlib.util
        original = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "onnxruntime" else original(name, *rest)
        """,
    )
    project.write("agentv.config.yaml", "targets: {assistant: {provider: mock, response: x}}\n")
    project.write(
        "suite.yaml",
        "evalcases: [{id: a, input: x, evaluators: [{type: similarity, metric: embedding, value: x}]}]\n",
    )
    process = project.start("eval", "suite.yaml", env={"PYTHONPATH": str(project.root / "blocked")})
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, project.run_dirs()) == (2, [])
    assert "suite.yaml:1:71: `metric: embedding` needs" in stderr
    assert "`onnxruntime`" in stderr
    assert "run `pip install 'agentv[embeddings]'`" in stderr


@installed
async def test_paraphrase_scores_higher_than_another_topic() -> None:
    answer = "You can visit the store on Sunday too."
    alike = await judged(answer, "similarity", metric="embedding", value="The shop is open on Sundays.", threshold=0.5)
    other = await judged(answer, "similarity", metric="embedding", value="Photosynthesis needs light and water.")
    assert (alike.error, other.error) == (None, None)
    assert alike.score > 0.6
    assert other.score < 0.2
    assert alike.hits[0].endswith("to 'The shop is open on Sundays.' (embedding)")
    same = await judged(answer, "similarity", metric="embedding", value=answer)
    assert same.score == pytest.approx(1.0)


@installed
async def test_text_beyond_the_limit_of_the_model_is_a_warning() -> None:
    result = await judged("word " * 400, "similarity", metric="embedding", value="word")
    assert result.error is None
    assert "the answer is longer than the 256 tokens" in result.warnings[0]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("The café's price: $5.00", [101, 1996, 7668, 1005, 1055, 3976, 1024, 1002, 1019, 1012, 4002, 102]),
        ("unaffable", [101, 14477, 20961, 3468, 102]),
        ("[SEP]", [101, 1031, 19802, 1033, 102]),
        ("x" * 101, [101, 100, 102]),
        ("", [101, 102]),
    ],
)
def test_word_pieces_are_those_of_the_model(text: str, ids: list[int]) -> None:
    assert token_ids(text, 256) == (ids, False)
