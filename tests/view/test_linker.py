"""The modules of the viewer as one classic script."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from agentv.view import assets
from agentv.view.javascript import LinkError, tokens
from agentv.view.linker import link, modules_of, parse, stripped_style
from agentv.view.shorten import variables

STATIC = Path(assets.__file__).parent / "static"
MODULES = sorted(STATIC.glob("*.js"))


def linked(**modules: str) -> str:
    """`main.js` and the modules it imports."""
    return link("main.js", lambda name: modules[name.removesuffix(".js")])


def test_modules_become_one_scope_in_the_order_of_their_imports() -> None:
    script = linked(
        main='import { one, two as three } from "./a.js";\nconsole.log(one(), three);\n',
        a='import { two as base } from "./b.js";\n'
        "export function one() {\n  return base;\n}\nexport const two = base + 1;\n",
        b="export const two = 2;\n",
    )
    assert script == (
        '(()=>{"use strict";\nconst ee=2;\nfunction et(){return ee}\nconst en=ee+1;\nconsole.log(et(),en);\n})();\n'
    )


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ('import x from "./a.js";', "main.js line 1: imports must be"),
        ('import * as x from "./a.js";', "imports must be"),
        ('import "./a.js";', "imports must be"),
        ('import {\n  x,\n} from "./a.js";', "imports must be"),
        ('import { x } from "https://example.com/a.js";', "imports must be"),
        ('\nconst x = await import("./a.js");', "main.js line 2: "),
        ('function f() {\n  return import("./a.js");\n}', "main.js line 2: imports must be"),
        ("export default function f() {}", "only functions, classes and `const NAME` can be exported"),
        ("export let x = 1;", "only functions"),
        ('export { x } from "./a.js";', "only functions"),
        ("export const { x } = y;", "only functions"),
        ("await fetch(1);", "await must be in a function"),
        ('import { missing } from "./a.js";', "main.js imports missing from a.js, which does not export it"),
        ('import { x } from "./unknown.js";', "main.js imports unknown.js, which does not exist"),
        ('import { x } from "./main.js";', "circular import: main.js -> main.js"),
        ('const x = "</script>";', "'</script' cannot be in an inline script"),
        ('const x = "<!--";', "'<!--' cannot be in an inline script"),
        ("const x = {} / 2;", "main.js line 1: a / after } can be read in two ways"),
        ("const x = y++ / 2;", "can be read in two ways"),
        ("const x = `open", "the template is not closed"),
        ("const x = 'open\n';", "the string is not closed"),
        ("f(", "a bracket is not closed"),
        ("f)", "')' closes nothing"),
    ],
)
def test_code_that_cannot_be_joined_is_an_error(code: str, problem: str) -> None:
    with pytest.raises(LinkError, match=re.escape(problem)):
        linked(main=code, a="export const x = 1;")


def test_circular_import_is_reported_with_its_modules() -> None:
    a, b = 'import { b } from "./b.js";\nexport const a = 1;', 'import { a } from "./a.js";\nexport const b = 1;'
    with pytest.raises(LinkError, match=r"circular import: a\.js -> b\.js -> a\.js"):
        linked(main='import { a } from "./a.js";', a=a, b=b)


TRICKY = r"""
const strings = ["// no comment", '/* none */', "quote \" // \\", 'it\'s'];
const text = `line // one
    /* indented */ ${strings.map((one) => `<${one /* a comment */}>`).join("`")}   ${{ a: `}` }.a}`;
/* a
   comment */ const half = 10 / 2 / 1; // half
const regex = [/\/\/ [/"'`] /g, /[`/*]/].map((one) => one.source);
const returned = (() => { return /a/ .test("a") })();
const conditional = () => { if (half) /x/.exec("x"); return half /2/ 1; };
const more = (half) / 5 + [10][0] / 2 + strings.length / 4;
const a = half
/* line
break */
const sum = half /* one */ + /* two */ half;
const keyword = { return: 8 }.return / 2;
"""
RESULT = "[strings, text, half, regex, returned, conditional(), more, a, sum, keyword]"


def test_comments_are_removed_and_strings_are_not_changed() -> None:
    code = parse("main.js", TRICKY).code
    assert "a comment" not in code
    assert "// half" not in code
    assert "line // one\n    /* indented */ ${" in code
    assert '"// no comment"' in code
    assert r"/\/\/ [/\"'`] /g".replace('\\"', '"') in code
    assert not any(line.startswith(" ") for line in code.replace("\n    /* indented */", "").splitlines())


def test_every_module_is_read_completely() -> None:
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        pieces = list(tokens(path.name, source))
        assert "".join(piece.text for piece in pieces) == source
        kept = [piece.text for piece in parse(path.name, source).tokens if not piece.is_space]
        was = without_imports([piece.text for piece in pieces if not piece.is_space])
        assert [text for text in kept if text not in ";,"] == [text for text in was if text not in ";,"], path.name


def without_imports(pieces: list[str]) -> list[str]:
    """Pieces of a module without its imports and the word `export`."""
    kept: list[str] = []
    skip = False
    for at, piece in enumerate(pieces):
        skip = skip or piece == "import" or pieces[at : at + 4] == ["export", "{", "}", ";"]
        if not skip and piece != "export":
            kept.append(piece)
        skip = skip and piece != ";"
    return kept


NAMED = r"""
import { base, page as otherPage, set, name as status } from "./other.js";
const seen = [];
const { first, second: renamed = 5, ...others } = { first: 1, third: 3, fourth: 4 };
let counter = 0, limit = 3;
class Box {
  size = base + 1;
  #hidden = 7;
  static made(value) { return new Box(value); }
  constructor(value) { this.value = value; this.limit = limit; }
  get hidden() { return this.#hidden; }
  async wait({ value = this.value, ...rest } = {}) { return [value, rest]; }
  *each() { yield* [this.size, this.value]; }
}
function shadowed(limit, { base = 2, page } = {}) {
  const inner = { limit, base, page, "quoted": limit, [`computed-${limit}`]: base, method(base) { return base; } };
  switch (limit) { case base: { const counter = 9; inner.counter = counter; break; } default: inner.counter = counter; }
  for (const [key, value] of Object.entries(inner)) if (typeof value !== "function") seen.push(`${key}: ${value}`);
  const swapped = limit > 2 ? { limit: base } : { base: limit };
  return [inner.method(4), swapped, ((first) => first + counter)(1), limit ? base : counter];
}
function nested(rows, unused) {
  const [, width = rows.length,] = [0, , ];
  const doubled = rows.map((row) => row.map((cell, _) => cell * width));
  const { dropped, ...left } = { dropped: 1, base, rows: doubled };
  for (const row of rows) for (const cell of row) left.sum = (left.sum ?? 0) + cell;
  for (let i = 0; i < 2; i++) { const row = () => i + width; left[`row${i}`] = row(); }
  const later = (row) => { const early = inner(); function inner() { return [row, limit]; } return early; };
  let steps = 0; while (steps++ < 3);
  do steps--; while (steps > 1)
  { const limit = "block"; left.block = [limit, steps]; }
  const open = ({ width: name }, status = name) => [name, status, width], close = async row => row;
  left.catches = (() => { try { throw rows; } catch ([row]) { const limit = row; return limit; } })();
  return [left, later(5), open({ width: 3 }), typeof close, ((event) => event)(1),
    function find(n) { return n ? find(n - 1) + 1 : width; }(2)];
}
async function main() {
  counter += 1; limit = 4;
  const box = Box.made(2), label = (a, b) => a + +b - -a;
  const more = [...box.each()].map((size, i) => ({ size, i }));
  try { throw new Error("x"); } catch { counter++ }
  try { throw new Error("y"); } catch (error) { seen.push(error.message) }
  return { first, renamed, others, box: [box.size, box.hidden, box.limit], waited: await box.wait({ other: 1 }), more,
    shadowed: [shadowed(3, { page: "p" }), shadowed(2)], label: label(1, 2), otherPage,
    nested: nested([[1, 2], [3]]),
    set: [set(1), status], seen, counter };
}
main().then((result) => console.log(JSON.stringify(result)));
"""
OTHER = (
    "export const base = 10;\nconst limit = 1;\nexport const page = { base, limit };\n"
    "export const name = 6;\nexport function set(get) {\n  return [get, name];\n}\n"
)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_short_names_do_not_change_what_the_code_does(tmp_path: Path) -> None:
    script = link("main.js", lambda name: {"main.js": NAMED, "other.js": OTHER}[name])
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "main.js").write_text(NAMED)
    (tmp_path / "other.js").write_text(OTHER)
    (tmp_path / "linked.cjs").write_text(script)
    results = [
        subprocess.run(["node", name], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
        for name in ("main.js", "linked.cjs")
    ]
    assert json.loads(results[0]) == json.loads(results[1])
    assert json.loads(results[0])["waited"] == [2, {"other": 1}]
    assert len(script) < len(NAMED + OTHER) * 0.9
    assert "swapped" not in script
    assert "shadowed:[" in script  # a property


def test_names_of_the_browser_are_kept(browser: Browser) -> None:
    names = {
        name
        for entry in (assets.FILE_ENTRY, assets.SERVER_ENTRY)
        for module in modules_of(entry, lambda name: assets.read(name).decode("utf-8"))
        for name in variables(module.tokens)
    }
    page = browser.new_page()
    missing = page.evaluate("(names) => names.filter((name) => name in window)", sorted(names))
    page.close()
    assert missing == [], "add these to GLOBALS in view/shorten.py"


def test_script_of_the_server_has_the_modules_that_the_linker_finds() -> None:
    script = assets.served(assets.SCRIPT).decode("utf-8")
    modules = modules_of(assets.SERVER_ENTRY, lambda name: assets.read(name).decode("utf-8"))
    starts = [script.index(f"\nconst ${module.name.removesuffix('.js')} = (() => {{\n") for module in modules]
    assert script.count("\n})();\nconst $") + 1 == len(modules)
    for module, start in zip(modules, starts, strict=True):
        for other in module.imports:
            assert script.index(f"\nconst ${other.removesuffix('.js')} = ") < start
        exports = re.search(r"\nreturn \{ (.*) \};\n\}\)\(\);\n", script[start:])
        assert exports is not None
        assert [name for name in exports.group(1).split(", ") if name] == module.exports
        taken = script[start : start + exports.start()]
        for other, names in module.imports.items():
            pairs = ", ".join(there if there == here else f"{there}: {here}" for there, here in names)
            assert f"const {{ {pairs} }} = ${other.removesuffix('.js')};" in taken
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)


def test_style_keeps_strings_and_loses_comments() -> None:
    style = stripped_style("/* a */\n  .a  .b::before {\n    content: '/* x */  ';\n\n}\n.c { color: red; /* b */ }\n")
    assert style == ".a .b::before {\ncontent: '/* x */  ';\n}\n.c { color: red; }\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_tricky_code_means_the_same_without_comments() -> None:
    results = [
        subprocess.run(
            ["node", "-e", f"{code}\nconsole.log(JSON.stringify({RESULT}))"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for code in (TRICKY, parse("main.js", TRICKY).code)
    ]
    assert results[0] == results[1]
    assert json.loads(results[0])[2] == 5
