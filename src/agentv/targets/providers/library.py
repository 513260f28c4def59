"""Models that are reached through a library: their vendor's client, behind `pydantic_ai.direct.model_request`.

The libraries build requests and read replies. What goes over the network goes through our own `Exchange`, for all of
them: one connection pool per target, one way to fail, no retries but the gate's, no proxy for loopback.
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
from agentv.targets.prices import Pricer
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.chat import wire_messages
from agentv.targets.providers.exchange import Exchange
from agentv.targets.providers.model_settings import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model

MOST_CONNECTIONS = 200


class LibrarySettings(ModelSettings):
    """Settings of a target that is reached through a library."""

    structured_output: Literal["auto", "off"] = Field(
        "auto",
        description="How a judge's JSON is asked for: by a schema where the model has that, or in words alone.",
    )


class LibraryProvider(Provider):
    """One client of the vendor's library, built in a thread at the first call: importing it takes a second or two."""

    Settings: ClassVar[type[TargetSettings]] = LibrarySettings
    answers_by_prompt = True
    honours = frozenset({"temperature", "top_p", "max_output_tokens", "response_schema", "tools", "tool_choice"})
    REQUIREMENT: ClassVar[str]
    """What to `pip install` for this provider; one of agentv's extras has the same requirement."""
    LIBRARY: ClassVar[str]
    """The vendor's module, which the requirement installs."""
    BASE_URL: ClassVar[str] = ""
    PRICED_AS: ClassVar[str]
    DECLARES_TOOLS: ClassVar[bool] = False
    """Whether the API wants tools declared that a conversation only looks back on."""
    LATE_SYSTEM: ClassVar[bool] = False
    """Whether the API takes system messages in the middle of a conversation."""
    ASSUMED: ClassVar[Mapping[str, Any]] = {}
    """What the library wants in every reply, for servers that leave it out. Counts of 0 read as unknown."""

    def __init__(self, settings: Any, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        if not all(map(_is_installed, ("pydantic_ai", self.LIBRARY))):
            raise TargetUnavailableError(
                scope.name, f"its library is not installed; run: pip install '{self.REQUIREMENT}'"
            )
        own_url = settings.base_url or self._variable("_BASE_URL")
        self._base_url = own_url or self.BASE_URL
        if self._base_url and not is_http(self._base_url):
            raise TargetUnavailableError(
                scope.name, f"`base_url` is not an address like https://host: {self._base_url}"
            )
        self._key = (settings.api_key or self._own_key() or "").strip()
        if not self._key and self._needs_key():
            raise TargetUnavailableError(scope.name, f"it has no key; set `api_key` or {settings.READS[0]}")
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

    # -- what differs from vendor to vendor

    def _build(self) -> Model[Any]:
        """The model, on a client that sends through `self._exchange`. Runs in a thread."""
        raise NotImplementedError

    def _vendor_settings(self, options: GenerationOptions) -> dict[str, Any]:
        """What this vendor's library takes besides, or under another name."""
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
        """An error of the library itself: nothing was sent, or the reply was not what it expects."""
        what = self._exchange.clean(str(error) or "no reason given", 500)
        if isinstance(error, ImportError):
            return self._exchange.error(
                f"its library cannot be imported: {what}",
                next_step=f"Reinstall it: pip install --force-reinstall '{self.REQUIREMENT}'.",
            )
        return self._exchange.error(
            f"the request could not be made or its reply not be read: {type(error).__name__}: {what}",
            next_step="Is `base_url` the address of this provider's API, and are the settings right for the model?",
        )

    # -- a call

    async def prepare(self) -> None:
        """Import the library and build its client. What goes wrong with that is told by the call."""
        if self._model is None:
            with suppress(Exception):
                await self._open()

    async def invoke(self, request: Request) -> Reply:
        self._pricer.start()
        messages = wire_messages(request)
        try:
            model = self._model or await self._open()
            response = await self._request(model, messages, request.options)
        except Exception as error:
            known = _known_cause(error)
            if known is None:
                raise self._explain(error) from error
            if known is error:
                raise
            raise known from None
        if not self._pricer.ready:
            await self._pricer.loaded()
        return self._reply(response)

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
        from pydantic_ai.direct import model_request  # noqa: PLC0415 - the module says why

        from agentv.targets.providers.library_messages import (  # noqa: PLC0415 - imports it too
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
        asked = parameters(model, messages, options, declare_tools=self.DECLARES_TOOLS)
        conversation = to_library(messages, late_system=self.LATE_SYSTEM)
        settings: Any = {**self._common_settings(options), **self._vendor_settings(options)}
        if asked.function_tools and not options.tools:
            settings["tool_choice"] = "none"
        return await model_request(model, conversation, model_settings=settings, model_request_parameters=asked)

    def _common_settings(self, options: GenerationOptions) -> dict[str, Any]:
        """The options in the library's words. What the settings of the target fix wins."""
        own, choice = self._settings, options.tool_choice
        settings = {
            "temperature": options.temperature if own.temperature is None else own.temperature,
            "top_p": options.top_p,
            "max_tokens": own.max_output_tokens or options.max_output_tokens,
            "seed": options.seed,
            "stop_sequences": list(options.stop) or None,
            "tool_choice": [choice.name] if isinstance(choice, Tool) else choice,
            # The exchange sends them all; libraries look for a header that stands in for the key.
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
        found = (self._scope.environment.get(name) for name in self._settings.READS if name.endswith(ending))
        return next((value for value in found if value), None)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


def _known_cause(error: BaseException) -> AgentVError | None:
    """Our own error that a library wrapped in its own."""
    seen: BaseException | None = error
    for _ in range(20):
        if seen is None or isinstance(seen, AgentVError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
