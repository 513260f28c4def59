"""The same judge call for tools without a judge proxy: the script calls the model with the key it can read.

In AgentV (npm) it uses the proxy if there is one. promptfoo calls `get_assert`.
"""

import json
import os
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

PROXY = os.environ.get("AGENTV_TARGET_PROXY_URL")


def ask(question: str) -> str:
    if PROXY:
        open("proxy-used", "w").close()  # noqa: PTH123
        reply = post(f"{PROXY}/invoke", os.environ["AGENTV_TARGET_PROXY_TOKEN"], {"question": question})
        return reply["rawText"]
    messages = [{"role": "user", "content": question}]
    body = {"model": os.environ["JUDGE_MODEL"], "messages": messages}
    reply = post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", os.environ["OPENAI_API_KEY"], body)
    return reply["choices"][0]["message"]["content"]


def post(url: str, key: str, body: dict) -> dict:
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname, where.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", where.path, json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{url} answered {response.status}: {text[:300]!r}")
    return json.loads(text)


def score(answer: str) -> float:
    return 1.0 if "Paris" in ask(f"Does the answer name the capital?\n\n{answer}") else 0.0


def get_assert(output: str, _context: object) -> float:
    return score(output)


if __name__ == "__main__":
    print(json.dumps({"score": score(str(json.load(sys.stdin)["output"]))}))
