"""The settings of a `cli` target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.cli_template import DEFAULT_FILES_FORMAT, CommandTemplate, parse_files_format

HEALTHCHECK_SECONDS = 30.0

_strict = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

_COMMAND = (
    "Program and arguments: a list, or a string that is split like in a shell (no shell is run). "
    "Placeholders: `{PROMPT}` `{PROMPT_FILE}` `{EVAL_ID}` `{ATTEMPT}` `{FILES}` `{OUTPUT_FILE}` `{GUIDELINES}`. "
    "Without `{PROMPT}` and `{PROMPT_FILE}`, the command gets the prompt on stdin. `python` as the first "
    "word is the interpreter that runs agentv."
)


class HttpCheck(BaseModel):
    """A URL that must respond with 2xx before the first call."""

    model_config = _strict

    type: Literal["http"]
    url: str = Field(pattern=r"^https?://", description="Requested with GET; redirects are not followed.")
    timeout_seconds: float = Field(HEALTHCHECK_SECONDS, gt=0)


class CommandCheck(BaseModel):
    """A command that must exit with code 0 before the first call."""

    model_config = _strict

    type: Literal["command"]
    shell: bool = False
    command: list[str] | str | None = None
    command_template: str | None = Field(None, description="The same as `command` with `shell: true`.")
    cwd: str | None = None
    timeout_seconds: float = Field(HEALTHCHECK_SECONDS, gt=0)

    @model_validator(mode="after")
    def _one_command(self) -> CommandCheck:
        command_template(self)
        return self


class CliSettings(TargetSettings):
    """Settings of a `cli` target."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        **TargetSettings.ALIASES,
        "commandTemplate": "command_template",
        "filesFormat": "files_format",
        "attachments_format": "files_format",
        "attachmentsFormat": "files_format",
    }

    shell: bool = Field(
        False, description="Run the command with `/bin/sh -c`. It gets the values of placeholders as variables."
    )
    command: list[str] | str | None = Field(None, description=_COMMAND)
    command_template: str | None = Field(None, description="The same as `command` with `shell: true`.")
    files_format: str = Field(
        DEFAULT_FILES_FORMAT,
        description="Format of each file in `{FILES}`: `{path}`, `{basename}` and other text.",
    )
    cwd: str | None = Field(
        None, description="Working directory, relative to the configuration file. Default: the file's directory."
    )
    env: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Extra environment variables: a mapping, or a list of names to pass through.",
    )
    healthcheck: Annotated[HttpCheck | CommandCheck, Field(discriminator="type")] | None = Field(
        None, description="Check that must succeed before the first call; runs once."
    )
    on: Literal["driver", "nodes"] | None = Field(
        None,
        description="Where the command runs in a run with `--on`: `driver` is the machine that runs agentv. "
        "Default: `nodes`.",
    )
    send_secrets: bool = Field(
        False, description="Send the keys that this entry reads to the nodes that run its command. Needs TLS."
    )
    verbose: bool = Field(False, description="Log every command line.")
    keep_temp_files: bool = Field(False, description="Keep the temporary prompt and output files.")

    @field_validator("command")
    @classmethod
    def _readable(cls, value: list[str] | str | None, info: ValidationInfo) -> list[str] | str | None:
        if value is not None:
            CommandTemplate.parse(value, by_shell=bool(info.data.get("shell")))
        return value

    @field_validator("command_template")
    @classmethod
    def _readable_by_shell(cls, value: str | None) -> str | None:
        if value is not None:
            CommandTemplate.parse(value, by_shell=True)
        return value

    @field_validator("files_format")
    @classmethod
    def _known_placeholders(cls, value: str) -> str:
        parse_files_format(value)
        return value

    @model_validator(mode="after")
    def _one_command(self) -> CliSettings:
        command_template(self)
        return self

    @property
    def on_nodes(self) -> bool:
        return self.on != "driver"

    @property
    def sends_secrets(self) -> bool:
        return self.send_secrets

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        problems = dict(_command_not_found(self, self.env, directory, search))
        if isinstance(self.healthcheck, CommandCheck):
            check = _command_not_found(self.healthcheck, self.env, directory, search)
            problems |= {("healthcheck", *node): message for node, message in check.items()}
        return problems


def working_directory(home: Path, cwd: str | None) -> Path:
    """Where a command runs: `cwd`, relative to `home`."""
    return home / Path(cwd).expanduser() if cwd else home


def with_own_program(argv: list[str], folder: Path, directory: Path) -> list[str]:
    """A relative program starts from the configuration's directory too, and not only from `cwd`."""
    beside = directory / argv[0]
    if "/" in argv[0] and folder != directory and beside.is_file():
        return [str(beside), *argv[1:]]
    return argv


def _command_not_found(
    settings: CliSettings | CommandCheck, env: Mapping[str, str], directory: Path, search: ProgramSearch
) -> Mapping[NodePath, str]:
    template = command_template(settings)
    if template.by_shell:
        return {}  # a shell finds programs and files in its own way
    fixed = template.fixed_words()
    if not fixed:
        return {}
    folder = working_directory(directory, settings.cwd)
    problem = search.problem(with_own_program(fixed, folder, directory), folder, env)
    if problem is None:
        return {}
    return {
        ("cwd" if settings.cwd else "command",) if problem.word is None else ("command", problem.word): problem.message
    }


def command_template(settings: CliSettings | CommandCheck) -> CommandTemplate:
    if (settings.command is None) == (settings.command_template is None):
        raise ValueError("set either `command` or `command_template`")
    files_format = settings.files_format if isinstance(settings, CliSettings) else DEFAULT_FILES_FORMAT
    if settings.command is not None:
        return CommandTemplate.parse(settings.command, by_shell=settings.shell, files_format=files_format)
    return CommandTemplate.parse(settings.command_template or "", by_shell=True, files_format=files_format)
