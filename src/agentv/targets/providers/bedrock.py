"""The `bedrock` provider: models on AWS, through boto3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from agentv.errors import ProviderError
from agentv.messages import GenerationOptions
from agentv.targets.provider import Reply, Request, TargetSettings
from agentv.targets.providers.exchange import Exchange
from agentv.targets.providers.library import MOST_CONNECTIONS, LibraryProvider, LibrarySettings
from agentv.targets.providers.model_settings import ExtraBodySettings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pydantic_ai.models import Model

LONGEST_ANSWER = 4096
_NOT_SENT = frozenset({"host", "content-length", "accept-encoding"})


class BedrockSettings(LibrarySettings, ExtraBodySettings):
    """Settings of a `bedrock` target."""

    READS: ClassVar[tuple[str, ...]] = (
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    )

    model: str = Field(min_length=1, description="The model or inference profile, as Bedrock names it.")
    base_url: str | None = Field(None, description="URL of the API. Default: the endpoint of the region.")
    api_key: str | None = Field(None, repr=False, description="A Bedrock API key. Default: sign with AWS credentials.")
    max_output_tokens: int | None = Field(
        None, ge=1, description="Maximum length of an answer in tokens. Default 4096."
    )
    region: str | None = Field(
        None, pattern=r"^[a-z0-9-]+$", description="AWS region. Default: `AWS_REGION`, else that of the profile."
    )
    profile: str | None = Field(None, min_length=1, description="Profile in the AWS configuration files.")


@dataclass(slots=True)
class _Call:
    """The HTTP requests of one call. The call's thread waits for them."""

    loop: asyncio.AbstractEventLoop
    posts: list[Future[Any]] = field(default_factory=list)
    over: bool = False


_current: ContextVar[_Call] = ContextVar("bedrock call")


class BedrockProvider(LibraryProvider):
    """Models on Bedrock, through the Converse API. boto3 signs requests in a thread; our `Exchange` sends them."""

    Settings: ClassVar[type[TargetSettings]] = BedrockSettings
    REQUIREMENT = "pydantic-ai-slim[bedrock]>=2.60"
    LIBRARY, PRICED_AS = "boto3", "bedrock"
    DECLARES_TOOLS = True
    honours = LibraryProvider.honours | {"stop"}
    ASSUMED: ClassVar[Mapping[str, Any]] = {"usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}}

    def _own_key(self) -> str | None:
        return self._scope.environment.get("AWS_BEARER_TOKEN_BEDROCK")

    def _needs_key(self) -> bool:
        return False

    def _key_from(self) -> str:
        if self._key:
            return "`api_key` (or AWS_BEARER_TOKEN_BEDROCK)"
        return "the AWS credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `profile`), `region` and `model`"

    def _secrets(self) -> list[str]:
        names = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
        return [self._key, *(self._scope.environment.get(name, "") for name in names)]

    def _vendor_settings(self, options: GenerationOptions) -> dict[str, Any]:
        # Without an explicit limit the library requests the longest answer that the model supports, as a stream.
        limit = self._settings.max_output_tokens or options.max_output_tokens or LONGEST_ANSWER
        settings: dict[str, Any] = {"max_tokens": limit}
        if self._settings.extra_body:
            settings["bedrock_additional_model_requests_fields"] = self._settings.extra_body
        return settings

    def _address(self) -> str:
        return self._base_url or f"https://bedrock-runtime.{self._region() or 'any'}.amazonaws.com"

    def _region(self) -> str | None:
        read = self._scope.environment.get
        return self._settings.region or read("AWS_REGION") or read("AWS_DEFAULT_REGION")

    async def invoke(self, request: Request) -> Reply:
        call = _Call(asyncio.get_running_loop())
        token = _current.set(call)
        try:
            return await super().invoke(request)
        finally:
            _current.reset(token)
            call.over = True
            for post in call.posts:  # a thread that still waits would delay the exit of the program
                post.cancel()

    def _build(self) -> Model[Any]:
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - see library.py
        import botocore.session  # type: ignore[import-untyped]  # noqa: PLC0415
        from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415
        from pydantic_ai.models.bedrock import BedrockConverseModel  # noqa: PLC0415
        from pydantic_ai.providers.bedrock import BedrockProvider as Vendor  # noqa: PLC0415

        read, settings = self._scope.environment.get, self._settings
        core = botocore.session.Session()
        variables = {
            "profile": settings.profile or read("AWS_PROFILE"),
            "config_file": read("AWS_CONFIG_FILE"),
            "credentials_file": read("AWS_SHARED_CREDENTIALS_FILE"),
        }
        for name, value in variables.items():
            if value:
                core.set_config_variable(name, value)
        keys = (read("AWS_ACCESS_KEY_ID"), read("AWS_SECRET_ACCESS_KEY"), read("AWS_SESSION_TOKEN"))
        if self._key:
            _give_token(core, self._key)
        elif keys[0] and keys[1] and not settings.profile:
            core.set_credentials(*keys)
        client: Any = boto3.Session(botocore_session=core).client(
            "bedrock-runtime",
            region_name=self._region(),
            endpoint_url=settings.base_url,
            config=Config(
                signature_version="bearer" if self._key else "v4",
                retries={"total_max_attempts": 1},
                proxies={},
                max_pool_connections=1,
            ),
        )
        client.meta.events.register("before-send.bedrock-runtime", _sender(self._exchange))
        return BedrockConverseModel(settings.model, provider=Vendor(bedrock_client=client))

    async def _open(self) -> Model[Any]:
        from anyio import to_thread  # noqa: PLC0415 - see library.py

        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, MOST_CONNECTIONS)
        return await super()._open()

    def _explain(self, error: Exception) -> ProviderError:
        known = {
            "NoCredentialsError": "no AWS credentials were found",
            "PartialCredentialsError": "the AWS credentials are incomplete",
            "ProfileNotFound": str(error),
            "NoRegionError": "no AWS region is set",
        }
        what = known.get(type(error).__name__)
        if what is None:
            return super()._explain(error)
        return self._exchange.error(
            what,
            next_step="Set `region` and one of: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, `profile`, `api_key`.",
        )


def _give_token(session: Any, token: str) -> None:
    from botocore.tokens import FrozenAuthToken  # type: ignore[import-untyped]  # noqa: PLC0415 - see library.py

    session.get_auth_token = lambda **_: FrozenAuthToken(token)
    session.get_credentials = lambda: None


@dataclass(frozen=True, slots=True)
class _Raw:
    """A response body in the form that boto3 reads."""

    data: bytes

    def stream(self) -> Iterator[bytes]:
        yield self.data


def _sender(exchange: Exchange) -> Callable[..., Any]:
    """A boto3 hook that sends requests through the exchange. It runs in the thread of the call."""
    from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]  # noqa: PLC0415 - see library.py

    def send(request: Any, **_: Any) -> Any:
        call = _current.get()
        sent = {name: _text(value) for name, value in request.headers.items() if name.lower() not in _NOT_SENT}
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        post = asyncio.run_coroutine_threadsafe(exchange.post_for_library(request.url, sent, body), call.loop)
        call.posts.append(post)
        if call.over:
            post.cancel()
        data = post.result()[1]
        return AWSResponse(request.url, 200, {"content-type": "application/json"}, _Raw(data))

    return send


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
