"""Convert promptfoo providers that are programs: commands, and functions in Python and JavaScript files."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.importing.source import FILE, Node, Notes, entries
from agentv.importing.templates import environment_variables

CALL_PYTHON = """\
import asyncio, contextlib, importlib.util, inspect, json, os, sys
prompt, path, name, options = sys.stdin.read(), *sys.argv[1:]
with contextlib.redirect_stdout(sys.stderr):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("provider", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    reply = getattr(module, name)(prompt, json.loads(options), {"vars": {}})
    reply = asyncio.run(reply) if inspect.isawaitable(reply) else reply
if reply.get("error"):
    sys.exit(str(reply["error"]))
output = reply["output"]
print(json.dumps({"text": output if isinstance(output, str) else json.dumps(output)}))
"""
CALL_JAVASCRIPT = """\
const { readFileSync, writeSync } = require("node:fs");
const [path, options, name] = process.argv.slice(1);
console.log = console.info = console.error;
(async () => {
  const here = require("node:module").createRequire(require("node:path").resolve("package.json"));
  const file = name ? here.resolve(path) : require("node:path").resolve(path);
  const module = await import(require("node:url").pathToFileURL(file));
  const part = (value) => name.split(".").reduce((outer, key) => outer?.[key], value);
  const found = name ? part(module) ?? part(module.default) : module.default?.default ?? module.default ?? module;
  const isClass = typeof found === "function" && found.prototype?.callApi;
  const provider = isClass ? new found(JSON.parse(options)) : found;
  const call = provider.callApi ? provider.callApi.bind(provider) : provider;
  const reply = await call(readFileSync(0, "utf8"), { vars: {} }, {});
  if (reply.error) throw new Error(reply.error);
  const text = typeof reply.output === "string" ? reply.output : JSON.stringify(reply.output);
  writeSync(1, JSON.stringify({ text }));
})().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
"""
_SECRET = re.compile(r"key|token|secret|password|credential|auth|cookie", re.IGNORECASE)
_CLAUDE_OPTIONS = {
    "model": "--model",
    "max_turns": "--max-turns",
    "permission_mode": "--permission-mode",
    "append_system_prompt": "--append-system-prompt",
    "custom_system_prompt": "--system-prompt",
}
WITHOUT_VARS = "`vars` in the context of the function is empty: the variables are only in the prompt"


@dataclass(slots=True)
class Programs:
    """Converts the programs of one configuration to `cli` targets."""

    notes: Notes
    directory: Path
    out: Path

    def settings(self, identity: str, config: Node | None, node: Node) -> dict[str, Any] | None:
        """The settings of the target; None if the provider is not a program. Raises ValueError."""
        vendor, _, rest = identity.partition(":")
        if identity == "echo":
            return {"provider": "cli", "command": ["cat"]}
        if vendor == "exec":
            return self._command(rest, node)
        if identity.startswith("openai:codex-sdk"):
            return self._codex(identity.removeprefix("openai:codex-sdk").lstrip(":"), config, node)
        if identity in ("anthropic:claude-agent-sdk", "anthropic:claude-code"):
            return self._claude(config, node)
        if vendor == "package":
            return self._package(rest, config, node)
        path = rest if vendor == "python" else identity.removeprefix(FILE)
        if vendor != "python" and not identity.startswith(FILE):
            return None
        options = json.dumps({"config": config.value if config else {}})
        if match := re.fullmatch(r"(.+?\.py)(?::(\w+))?", path):
            self.notes.look_at(node, WITHOUT_VARS)
            arguments = [match[1], match[2] or "call_api", options]
            return {"provider": "cli", "command": ["python", "-c", CALL_PYTHON, *arguments], **self._cwd()}
        if re.fullmatch(r".+\.[cm]?[jt]s", path):
            self.notes.look_at(node, WITHOUT_VARS)
            if path.endswith("ts"):
                self.notes.look_at(node, "TypeScript needs Node 22.18 or newer")
            return {"provider": "cli", "command": ["node", "-e", CALL_JAVASCRIPT, path, options], **self._cwd()}
        raise ValueError(f"{path} is not Python or JavaScript")

    def _command(self, command: str, node: Node) -> dict[str, Any]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"invalid command: {error}") from None
        if not words:
            raise ValueError("the command is missing")
        if re.search(r"(?<!\$)\{[A-Z]", command):
            raise ValueError("the command contains text that looks like a placeholder")
        self.notes.look_at(
            node, "the prompt is the last argument of the command; promptfoo's two further arguments are not passed"
        )
        return {"provider": "cli", "command": [*words, "{PROMPT}"], **self._cwd()}

    def _codex(self, model: str, config: Node | None, node: Node) -> dict[str, Any]:
        """The command that the SDK of Codex runs."""
        command: list[str] = ["codex", "exec"]
        settings: dict[str, Any] = dict(self._cwd())
        for key, entry in entries(config):
            value = entry.value
            if key == "model":
                model = str(value)
            elif key == "sandbox_mode":
                command += ["--sandbox", str(value)]
            elif key == "skip_git_repo_check":
                command += ["--skip-git-repo-check"] if value else []
            elif key in ("model_reasoning_effort", "approval_policy", "model_provider"):
                command += ["-c", f"{key}={json.dumps(value)}"]
            elif key == "cli_config" and entry.is_mapping:
                command += [word for name, item in value.items() for word in ("-c", f"{name}={json.dumps(item)}")]
            elif key == "working_dir" and (folder := self._folder(str(value))):
                settings["cwd"] = folder
            elif key == "cli_env" and entry.is_mapping:
                settings["env"] = {name: self._environment(name, item) for name, item in entries(entry)}
            else:
                self.notes.left_out(entry, f"`{key}` in the provider's config is not imported")
        self.notes.look_at(node, "the target runs the program `codex`; the SDK of Codex runs it, too")
        command += ["--model", model] if model else []
        return {"provider": "cli", "command": [*command, "{PROMPT}"], **settings}

    def _claude(self, config: Node | None, node: Node) -> dict[str, Any]:
        """The command that Claude's agent SDK runs. promptfoo allows only reading, and only in a working directory."""
        command, settings = ["claude", "-p"], self._cwd()
        tools: list[str] = []
        for key, entry in entries(config):
            value = entry.value
            if key in _CLAUDE_OPTIONS:
                command += [_CLAUDE_OPTIONS[key], str(value)]
            elif key == "working_dir" and (folder := self._folder(str(value))):
                settings["cwd"] = folder
                tools += ["Read", "Grep", "Glob", "LS"]
            elif key == "mcp" and (servers := _mcp_servers(entry)):
                command += ["--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": servers})]
            elif key == "append_allowed_tools" and entry.is_list:
                tools += map(str, value)
            elif key == "custom_allowed_tools" and entry.is_list:
                tools = list(map(str, value))
            else:
                self.notes.left_out(entry, f"`{key}` in the provider's config is not imported")
        self.notes.look_at(node, "the target runs the program `claude`; Claude's agent SDK runs it, too")
        allowed = ["--allowedTools", ",".join(tools)] if tools else ["--tools", ""]
        return {"provider": "cli", "command": [*command, *allowed], **settings}

    def _package(self, name: str, config: Node | None, node: Node) -> dict[str, Any]:
        """A class or function of a package for Node, as in `package:NAME:EXPORT`."""
        match = re.fullmatch(r"(@?[\w./-]+):([\w.$]+)", name)
        if match is None:
            raise ValueError("it must name a package and an export, as in `package:NAME:EXPORT`")
        self.notes.look_at(node, WITHOUT_VARS)
        options = json.dumps({"config": config.value if config else {}})
        return {
            "provider": "cli",
            "command": ["node", "-e", CALL_JAVASCRIPT, match[1], options, match[2]],
            **self._cwd(),
        }

    def _folder(self, written: str) -> str | None:
        """A directory relative to the suite, also as the default of a variable; None for other templates."""
        converted = environment_variables(written.strip())
        match = re.fullmatch(r"(\$\{\{ \w+:-)(.+)( \}\})", converted)
        start, path, end = match.groups() if match else ("", converted, "")
        if "{{" in path:
            return None
        return start + os.path.relpath((self.directory / path).resolve(), self.out.resolve()) + end

    def _environment(self, name: str, node: Node) -> str:
        """The value of an environment variable; that of a secret is not copied."""
        value = environment_variables(str(node.value).lower() if isinstance(node.value, bool) else str(node.value))
        if "${{" in value or not _SECRET.search(name):
            return str(value)
        self.notes.left_out(node, f"the value of {name} is not copied; set the environment variable {name}")
        return f"${{{{ {name} }}}}"

    def _cwd(self) -> dict[str, str]:
        relative = os.path.relpath(self.directory.resolve(), self.out.resolve())
        return {} if relative == "." else {"cwd": relative}


def _mcp_servers(node: Node) -> dict[str, Any] | None:
    """The servers of an `mcp` setting, as the program `claude` reads them; None if some of it has no equivalent."""
    servers = node.raw("servers")
    if not node.is_mapping or not node.value.keys() <= {"enabled", "servers"} or not isinstance(servers, list):
        return None
    found: dict[str, Any] = {}
    for server in servers:
        if not isinstance(server, dict) or not server.keys() <= {"name", "command", "args", "url"}:
            return None
        name = str(server.get("name") or server.get("url") or server.get("command"))
        if isinstance(server.get("command"), str):
            found[name] = {"command": server["command"], "args": list(map(str, server.get("args", ())))}
        elif isinstance(server.get("url"), str):
            found[name] = {"type": "http", "url": server["url"]}
        else:
            return None
    return found if node.raw("enabled", default=True) else None
