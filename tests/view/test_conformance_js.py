"""JavaScript formats numbers, tests differences and compares words as Python does."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from agentv.view.addresses import page_address
from tests.golden.test_viewer_vectors import word_diff_vector

ROOT = Path(__file__).parents[2]

SCRIPT = """async ({format, statistics, diffs}) => {
  const modules = ["format", "statistics", "diff"].map((name) => import(`/${name}.js`));
  const [numbers, tests, words] = await Promise.all(modules);
  const wrong = [];
  const check = (name, vector, value, expected) => {
    if (JSON.stringify(value) !== JSON.stringify(expected)) wrong.push({name, vector, value, expected});
  };
  const close = (one, two) => one === two || Math.abs(one - two) <= 1e-9 * Math.max(Math.abs(two), 1e-290);
  let count = 0;
  for (const [name, vectors] of Object.entries(format))
    for (const vector of vectors) {
      count++;
      check(name, vector, numbers[name](vector.value, ...(vector.more ?? [])), vector.text);
    }
  for (const [name, vectors] of Object.entries(statistics)) {
    for (const vector of vectors) {
      const value = tests[name](...vector.arguments);
      const pairs = Array.isArray(value) ? value.map((end, i) => [end, vector.value[i]]) : [[value, vector.value]];
      count++;
      if (!pairs.every(([one, two]) => close(one, two))) wrong.push({name, vector, value});
    }
  }
  const grouped = (runs, side) => {
    const parts = [];
    for (const run of runs) {
      if (!run[side]) continue;
      if (parts.at(-1)?.[1] === !run.equal) parts.at(-1)[0] += run[side];
      else parts.push([run[side], !run.equal]);
    }
    return parts;
  };
  for (const vector of diffs) {
    const {one, two} = vector;
    const runs = words.wordDiff(one, two) ?? [{equal: one === two, one, two}];
    count++;
    check("left", vector, grouped(runs, "one"), vector.left);
    check("right", vector, grouped(runs, "two"), vector.right);
  }
  return {count, wrong: wrong.slice(0, 5)};
}"""


def vectors(name: str) -> Any:
    return json.loads((ROOT / "conformance" / f"{name}.json").read_text(encoding="utf-8"))


def random_diffs() -> list[dict[str, Any]]:
    """Short strings of few words, so that most stretches occur more than once, and two long ones."""
    chance = random.Random(7)
    pieces = ["a", "b", "c", " ", " ", "\n", ".", "é", "--"]

    def text() -> str:
        return "".join(chance.choices(pieces, k=chance.randrange(40))).strip()

    long = "\n".join(f"line {number} of the text" for number in range(1000))
    return [
        *(word_diff_vector(str(number), text(), text()) for number in range(300)),
        word_diff_vector("by line", long, long.replace("line 500 ", "row 500 ").replace("line 900 of the text\n", "")),
        word_diff_vector("as a whole", "x\n" * 5000 + "x", "x\n" * 5000 + "y"),
    ]


def test_modules_agree_with_the_vectors(module_page: Page) -> None:
    diffs = [*vectors("word_diff"), *random_diffs()]
    argument = {"format": vectors("format"), "statistics": vectors("statistics"), "diffs": diffs}
    outcome = module_page.evaluate(SCRIPT, argument)
    assert outcome["wrong"] == []
    assert outcome["count"] > 400


def test_addresses_of_pages_are_the_same_in_both_languages(module_page: Page) -> None:
    names = [
        "20261116-120000-abc",
        "my run",
        "~x",
        "~~",
        "",
        ".",
        "..",
        "a/b?c#d",
        "%2f",
        "ü\u2028💩",
        "!*'()",
        "a&b=c+d",
    ]
    addresses = [page_address("run", name) for name in names]
    script = """async (names) => {
      const { address, placeOf } = await import("/router.js");
      const addresses = names.map((name) => address(["run", name]));
      return [addresses, addresses.map((one) => placeOf(one).parts[1])];
    }"""
    assert module_page.evaluate(script, names) == [addresses, names]


SORT = """async (vectors) => {
  const {sortedBy} = await import("/sorting.js");
  const read = (value) => ({nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0})[value?.special] ?? value;
  return vectors.map(({values, descending}) =>
    [...sortedBy(values.map((_, i) => i + 7), (item) => read(values[item - 7]), descending)]);
}"""


def test_values_are_sorted_as_python_sorts_them(module_page: Page) -> None:
    choose = random.Random(11)
    special = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}
    numbers = [0, 1, -1, 0.1, 0.2, 1e-300, -1e-300, 1e300, 5, None, *({"special": name} for name in special)]
    names = ["", "a", "b", "B", "é", "日本", "aa", "\uffff", None]
    vectors, expected = [], []
    for turn in range(200):
        values: list[Any] = choose.choices(numbers if turn % 2 else names, k=choose.randrange(40))
        known = [special[one["special"]] if isinstance(one, dict) else one for one in values]
        is_known = [one not in (None, "") and one == one for one in known]
        for descending in (False, True):
            order = sorted((i for i, one in enumerate(is_known) if one), key=known.__getitem__, reverse=descending)
            order += [i for i, one in enumerate(is_known) if not one]
            vectors.append({"values": values, "descending": descending})
            expected.append([i + 7 for i in order])
    for vector, found, wanted in zip(vectors, module_page.evaluate(SORT, vectors), expected, strict=True):
        assert found == wanted, vector
