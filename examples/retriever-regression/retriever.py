"""A small search over passages.txt, in two versions: python retriever.py v1 "How can I pay?"

v1 ignores common words and gives rare words more weight. v2 is a rewrite that "simplified" this: it counts the words
that question and passage share.
"""

import json
import math
import re
import sys
from pathlib import Path

PASSAGES = Path(__file__).with_name("passages.txt").read_text(encoding="utf-8").splitlines()
COMMON = "a are as can do has have how i is it my not on the what when you"


def stems(text, ignore=""):
    """The words of a text, each cut to four letters: a crude stemmer."""
    return {word[:4] for word in re.findall("[a-z]+", text.lower()) if word not in ignore.split()}


def rarity(stem):
    """Inverse document frequency: the fewer passages contain the stem, the higher."""
    return math.log(len(PASSAGES) / sum(stem in stems(passage) for passage in PASSAGES))


def score_v1(question, passage):
    return sum(rarity(stem) for stem in stems(question, COMMON) & stems(passage))


def score_v2(question, passage):
    return len(stems(question) & stems(passage))


def search(question, score):
    """The three best passages, best first."""
    return sorted(PASSAGES, key=lambda passage: score(question, passage), reverse=True)[:3]


if __name__ == "__main__":
    version, question = sys.argv[1:]
    passages = search(question, {"v1": score_v1, "v2": score_v2}[version])
    call = {"tool": "search", "input": {"query": question}, "output": passages}
    print(json.dumps({"output_messages": [{"role": "assistant", "content": passages[0], "tool_calls": [call]}]}))
