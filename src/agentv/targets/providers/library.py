"""Base of providers that use their vendor's library, through `pydantic_ai.direct.model_request`.

The libraries build requests and parse replies. All network traffic goes through our `Exchange`, so that every provider
has one connection pool per target, the same errors, only the gate's retries, and no proxy for loopback.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from agentv.errors import AgentVError, ProviderError, TargetUnavailableError
from agentv.http.urls import is_http
from agentv.messages import GenerationOptions, Tool
from agentv.targets.best_effort import SCHEMA, describing_schema, has_open_objects, without_options
from agentv.targets.prices import Pricer
from agentv.targets.provider import CallHooks, Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.chat import wire_messages
from agentv.targets.providers.exchange import Exchange
from agentv.targets.providers.model_settings import ModelSettings
from agentv.targets.providers.rejected_options import send_best_effort

if TYPE_CHECKING:
    from pydantic_ai.models import Model

MOST_CONNECTIONS = 200


class LibrarySettings(ModelSettings):
    """Settings of a target that is called through a library."""

    structured_output: Literal["auto", "off"] = Field(
        "auto",
        description="How JSON is requested from a judge: `auto` sends a schema if the model supports it; `off` uses "
        "only the prompt.",
    )


class LibraryProvider(Provider):
    """A client of the vendor's library. It is built in a thread on the first call: the import takes a second or two."""

    Settings: ClassVar[type[TargetSettings]] = LibrarySettings
    answers_by_prompt = True
    honours = frozenset({"temperature", "top_p", "max_output_tokens", "response_schema", "tools", "tool_choice"})
    REQUIREMENT: ClassVar[str]
    """The requirement to `pip install` for this provider. One of agentv's extras installs the same."""
    LIBRARY: ClassVar[str]
    """The vendor's module that the requirement installs."""
    BASE_URL: ClassVar[str] = ""
    PRICED_AS: ClassVar[str]
    DECLARES_TOOLS: ClassVar[bool] = False
    """Whether the API requires declarations of tools that occur only in earlier messages."""
    LATE_SYSTEM: ClassVar[bool] = False
    """Whether the API accepts system messages in the middle of a conversation."""
    ASSUMED: ClassVar[Mapping[str, Any]] = {}
    """Fields that the library requires in every reply, for servers that omit them. Counts of 0 mean unknown."""

    def __init__(self, settings: Any, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        self.fixes = settings.fixed_options
        if not all(map(_is_installed, ("pydantic_ai", self.LIBRARY))):
            raise TargetUnavailableError(
                scope.name, f"its library is not installed. Run: pip install '{self.REQUIREMENT}'"
            )
        own_url = settings.base_url or self._variable("_BASE_URL")
        self._base_url = own_url or self.BASE_URL
        if self._base_url and not is_http(self._base_url):
            raise TargetUnavailableError(
                scope.name, f"`base_url` must be a URL like https://host, got {self._base_url}"
            )
        self._key = (settings.api_key or self._own_key() or "").strip()
        if not self._key and self._needs_key():
            raise TargetUnavailableError(scope.name, f"it has no API key; set `api_key` or {settings.READS[0]}")
        self._exchange = Exchange(
            scope,
            self._address(),
            secrets=[*self._secrets(), *settings.headers.values()],
            key_from=self._key_from(),
            model=settings.model,
            limit=MOST_CONNECTIONS,
            headers=settings.headers,
            assumed=self.ASSUMED,
        )
        self._pricer = Pricer(settings.prices, url=own_url or "", provider=None if own_url else self.PRICED_AS)
        self._model: Model[Any] | None = None
        self._opening = asyncio.Lock()
        self._rejected: set[str] = set()
        """Options that the model has rejected."""

    async def price_gap(self) -> str | None:
        return await self._pricer.gap(self._settings.model, is_alias=self.PRICED_AS == "bedrock")

    # -- differences between vendors

    def _build(self) -> Model[Any]:
        """Build the model with a client that sends through `self._exchange`. Runs in a thread."""
        raise NotImplementedError

    def _vendor_settings(self, options: GenerationOptions) -> dict[str, Any]:
        """Settings that only this vendor's library has, or has under another name."""
        raise NotImplementedError

    def _own_key(self) -> str | None:
        return self._variable("_API_KEY")

    def _needs_key(self) -> bool:
        return True

    def _key_from(self) -> str:
        return f"`api_key` (or {self._settings.READS[0]})"

    def _secrets(self) -> list[str]:
        return [self._key]

    def _address(self) -> str:
        return self._base_url

    def _explain(self, error: Exception) -> ProviderError:
        """Convert an error of the library itself: it sent nothing, or could not parse the reply."""
        what = self._exchange.clean(str(error) or "no reason given", 500)
        if isinstance(error, ImportError):
            return self._exchange.error(
                f"its library cannot be imported: {what}",
                next_step=f"Reinstall it: pip install --force-reinstall '{self.REQUIREMENT}'.",
            )
        return self._exchange.error(
            f"its library failed to build the request or to parse the reply: {type(error).__name__}: {what}",
            next_step="Check that `base_url` is the URL of this provider's API and that the settings suit the model.",
        )

    # -- a call

    @property
    def is_prepared(self) -> bool:
        return self._model is not None

    async def prepare(self) -> None:
        """Import the library and build its client. Errors are ignored here; the call raises them."""
        if self._model is None:
            with suppress(Exception):
                await self._open()

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        hooks.on_start()
        if not request.best_effort:
            return await self.invoke(request)
        return await send_best_effort(request, self.invoke, self._rejected, hooks)

    async def invoke(self, request: Request) -> Reply:
        self._pricer.start()
        dropped: tuple[str, ...] = ()
        try:
            model = self._model or await self._open()
            if request.best_effort:
                request, dropped = self._fitted(model, request)
            response = await self._request(model, wire_messages(request), request.options)
        except Exception as error:
            known = _known_cause(error)
            if known is None:
                raise self._explain(error) from error
            if known is error:
                raise
            raise known from None
        if not self._pricer.ready:
            await self._pricer.loaded()
        reply = self._reply(response)
        return replace(reply, dropped_options=dropped) if dropped else reply

    def _fitted(self, model: Model[Any], request: Request) -> tuple[Request, tuple[str, ...]]:
        """The request without the options that the model does not support, and the names of these. A schema that the
        library cannot send, or would change, is described in the prompt."""
        from agentv.targets.providers.library_messages import (  # noqa: PLC0415 - imports pydantic_ai
            dropped_options,
            takes_schemas,
        )

        dropped = dropped_options(model, request.options)
        schema = request.options.response_schema
        is_sent = self._settings.structured_output != "off" and takes_schemas(model) and not has_open_objects(schema)
        if schema is not None and not is_sent:
            request = describing_schema(request)
            dropped.append(SCHEMA)
        return replace(request, options=without_options(request.options, dropped)), tuple(dropped)

    async def _open(self) -> Model[Any]:
        async with self._opening:
            if self._model is None:
                self._model = await asyncio.to_thread(self._load)
            return self._model

    def _load(self) -> Model[Any]:
        model = self._build()
        importlib.import_module("agentv.targets.providers.library_messages")
        importlib.import_module("pydantic_ai.direct")
        return model

    async def _request(self, model: Model[Any], messages: list[dict[str, Any]], options: GenerationOptions) -> Any:
        from pydantic_ai.direct import model_request  # noqa: PLC0415 - slow to import, see above

        from agentv.targets.providers.library_messages import (  # noqa: PLC0415 - imports pydantic_ai
            dropped_options,
            parameters,
            to_library,
        )

        if dropped := dropped_options(model, options):
            raise self._exchange.error(
                f"the model '{self._settings.model}' does not support the option "
                f"{', '.join(f'`{name}`' for name in dropped)}; nothing was sent",
                next_step="Leave the option out, or use a target with another model.",
            )

        if self._settings.structured_output == "off":
            options = replace(options, response_schema=None)
        request_parameters = parameters(model, messages, options, declare_tools=self.DECLARES_TOOLS)
        conversation = to_library(messages, late_system=self.LATE_SYSTEM)
        settings: Any = {**self._common_settings(options), **self._vendor_settings(options)}
        if request_parameters.function_tools and not options.tools:
            settings["tool_choice"] = "none"
        return await model_request(
            model, conversation, model_settings=settings, model_request_parameters=request_parameters
        )

    def _common_settings(self, options: GenerationOptions) -> dict[str, Any]:
        """The options in the library's terms. Settings of the target override the request."""
        own, choice = self._settings, options.tool_choice
        settings = {
            "temperature": options.temperature if own.temperature is None else own.temperature,
            "top_p": options.top_p if own.top_p is None else own.top_p,
            "max_tokens": own.max_output_tokens or options.max_output_tokens,
            "seed": options.seed,
            "stop_sequences": list(options.stop) or None,
            "tool_choice": [choice.name] if isinstance(choice, Tool) else choice,
            # The exchange sends all headers. Libraries only check whether one of them replaces the key.
            "extra_headers": {name: text for name, text in self._settings.headers.items() if text.isascii()} or None,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def _reply(self, response: Any) -> Reply:
        from agentv.targets.providers.library_messages import from_library  # noqa: PLC0415 - as above

        try:
            return from_library(response, self._pricer, self._settings.model)
        except ProviderError as error:
            raise self._exchange.of_target(error) from None

    async def aclose(self) -> None:
        self._model = None
        await self._exchange.aclose()
        await self._pricer.aclose()

    def _variable(self, ending: str) -> str | None:
        values = (self._scope.environment.get(name) for name in self._settings.READS if name.endswith(ending))
        return next((value for value in values if value), None)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _known_cause(error: BaseException) -> AgentVError | None:
    """Our own error, if a library wrapped it in its own."""
    cause: BaseException | None = error
    for _ in range(20):
        if cause is None or isinstance(cause, AgentVError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
