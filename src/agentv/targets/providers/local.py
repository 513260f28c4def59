"""`local`: a model in a GGUF file, in a server that starts and ends with the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from agentv.errors import ProviderError, TargetUnavailableError
from agentv.messages import OPTIONS
from agentv.processes.run import run_process
from agentv.regular_files import FileUnusableError, open_regular
from agentv.targets.best_effort import without_options
from agentv.targets.prices import Prices
from agentv.targets.provider import NO_HOOKS, CallHooks, Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.local_server import Endpoint, ModelServer, ServerError, ServerSettings
from agentv.targets.providers.model_settings import ExtraBodySettings
from agentv.targets.providers.openai_compatible import ChatSettings, OpenAICompatibleProvider

if TYPE_CHECKING:
    from agentv.suite.search import ProgramSearch
    from agentv.suite.yaml import NodePath

LIBRARY = "xllamacpp"
INSTALL = f"the package {LIBRARY} is not installed. Run: pip install 'agentv[local]', or: pip install {LIBRARY}"
MAGIC = b"GGUF"
FREE = Prices(input=0, output=0)
TOOLS = ("tools", "tool_choice")
DIED_SECONDS = 2.0
"""How long to wait for the process to end after the connection of a call was closed."""
_TOO_LONG = re.compile(r"request \((\d+) tokens\) exceeds the available context size \((\d+) tokens\)")
_NO_SCHEMA = re.compile("grammar|schema", re.IGNORECASE)
_NOT_TEXT = re.compile("(image|audio|video) input is not supported")


class LocalSettings(ExtraBodySettings):
    """Settings of a model in a file."""

    model: str = Field(
        min_length=1, description="Path of the GGUF file, relative to the configuration file; may start with `~`."
    )
    slots: int = Field(
        1,
        ge=1,
        le=64,
        description="Calls that are answered at a time. Other calls wait in a queue, without a deadline.",
    )
    context: int = Field(4096, ge=256, description="Length of the context of each slot in tokens: prompt and answer.")
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Threads that compute. Default: the physical cores, or fewer if the process may use fewer.",
    )
    seed: int | None = Field(None, ge=0, lt=2**32, description="Seed of the sampling. Default: a random seed.")

    @model_validator(mode="after")
    def _is_on_this_machine(self) -> Self:
        for name in ("base_url", "api_key", "headers"):
            if name in self.model_fields_set:
                raise ValueError(f"`{name}` has no effect on a local model; remove it")
        return self

    @property
    def fixed_options(self) -> frozenset[str]:
        return super().fixed_options | ({"seed"} if self.seed is not None else frozenset())

    @property
    def concurrency(self) -> int:
        return self.max_concurrency or self.slots

    def file(self, directory: Path) -> Path:
        """The file of the model."""
        return directory / Path(self.model).expanduser()

    def identity_of_files(self, directory: Path) -> list[str]:
        path = self.file(directory).resolve()
        try:
            state = path.stat()
        except OSError:
            return [str(path)]
        return [str(path), str(state.st_size), str(state.st_mtime_ns)]

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        del search
        problems: dict[NodePath, str] = {}
        if find_spec(LIBRARY) is None:
            problems["provider",] = INSTALL
        if problem := _problem_of(self.file(directory)):
            problems["model",] = problem
        return problems


def _problem_of(path: Path) -> str | None:
    """Why a file is certainly not a model."""
    if not path.exists():
        return f"there is no file {path}"
    try:
        with open_regular(path.resolve()) as file:
            start = file.read(len(MAGIC))
    except FileUnusableError as error:
        return f"{path} {error}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if start != MAGIC:
        return f"{path} is not a GGUF file: it begins with {start!r}. llama.cpp runs models in the GGUF format only"
    return None


class LocalProvider(Provider):
    """A client of the server of a model, which is started for the first call."""

    Settings: ClassVar[type[TargetSettings]] = LocalSettings
    answers_by_prompt = True
    honours = frozenset(OPTIONS)

    def __init__(self, settings: LocalSettings, scope: TargetScope) -> None:
        if find_spec(LIBRARY) is None:
            raise TargetUnavailableError(scope.name, INSTALL)
        path = settings.file(scope.directory)
        if problem := _problem_of(path):
            raise TargetUnavailableError(scope.name, problem)
        self._settings, self._scope = settings, scope
        self.fixes = settings.fixed_options
        started_with = ServerSettings(
            str(path.resolve()), path.stem, settings.slots, settings.context, settings.threads
        )
        self._server = scope.shared.get(
            started_with,
            lambda: ModelServer(started_with, scope.run_command or run_process, scope.environment, scope.redactor),
        )
        self._server.users += 1
        self.shared_slots = self._server.slots
        self._name = path.stem
        self._client: tuple[Endpoint, OpenAICompatibleProvider] | None = None

    @property
    def is_prepared(self) -> bool:
        return self._server.is_running

    async def prepare(self) -> None:
        await self._connected()

    async def invoke(self, request: Request) -> Reply:
        return await self.call(request, NO_HOOKS)

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        endpoint, client = await self._connected()
        dropped: tuple[str, ...] = ()
        if request.options.tools and not endpoint.tools:
            if not request.best_effort:
                raise self._failed(
                    f"the chat template of {self._name} has no tools, so the model would not see them",
                    "Use a model that was trained for tools.",
                )
            dropped = TOOLS
            request = replace(request, options=without_options(request.options, dropped))
        try:
            reply = await client.call(request, hooks)
        except ProviderError as error:
            raise await self._explained(error) from error.__cause__
        return replace(reply, dropped_options=(*reply.dropped_options, *dropped)) if dropped else reply

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client[1].aclose()
        self._server.users -= 1
        if not self._server.users:
            await self._server.aclose()

    # -- the server

    async def _connected(self) -> tuple[Endpoint, OpenAICompatibleProvider]:
        """The running server and a client of it. After a restart, its address is another."""
        try:
            endpoint = await self._server.started()
        except ServerError as error:
            raise self._failed(error.message, error.next_step) from None
        before = self._client
        if before is not None and before[0] == endpoint:
            return before
        self._client = endpoint, OpenAICompatibleProvider(self._chat_settings(endpoint), self._scope)
        client = self._client
        if before is not None:
            await before[1].aclose()
        return client

    def _chat_settings(self, endpoint: Endpoint) -> ChatSettings:
        own = self._settings
        seed = {} if own.seed is None else {"seed": own.seed}
        return ChatSettings(
            provider="openai_compatible",
            model=self._name,
            base_url=endpoint.url,
            api_key=endpoint.key,
            temperature=own.temperature,
            top_p=own.top_p,
            max_output_tokens=own.max_output_tokens,
            prices=own.prices or FREE,
            extra_body={**own.extra_body, **seed},
            structured_output="json_schema",
        )

    # -- errors

    async def _explained(self, error: ProviderError) -> ProviderError:
        """The error of a call, in terms of the settings of the target."""
        if error.status is None and error.retryable:
            died = await self._server.died(DIED_SECONDS)
            return error if died is None else self._failed(died.message, died.next_step, retryable=True)
        if match := _TOO_LONG.search(error.message):
            needed, available = map(int, match.groups())
            return self._failed(
                f"the prompt has {needed:,} tokens, but the context of the model has {available:,}",
                f"Raise `context` of the target to more than {needed:,}, with room for the answer. If it is longer "
                "already, it exceeds what the model was trained for.",
                status=error.status,
            )
        if match := _NOT_TEXT.search(error.message):
            return self._failed(f"{self._name} reads text only, but the prompt contains an {match[1]}")
        if error.status == 400 and _NO_SCHEMA.search(error.message):
            error.next_step = "llama.cpp cannot enforce this JSON Schema. Use a simpler one."
        return error

    def _failed(
        self, what: str, next_step: str | None = None, *, retryable: bool = False, status: int | None = None
    ) -> ProviderError:
        return ProviderError(
            f"target '{self._scope.name}': {what}", next_step=next_step, retryable=retryable, status=status
        )
