"""The judge client."""

from __future__ import annotations

from . import wire
from .connection import Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from .values import JudgeInfo, JudgeReply
    from .verdicts import Asking

DEFAULT_TIMEOUT = 120.0


def create_judge_proxy_client(
    *, timeout: float = DEFAULT_TIMEOUT, environ: Mapping[str, str] | None = None
) -> JudgeProxyClient | None:
    """The client for the judge this script was lent, or `None` when judge access is off.

    `timeout` is for one call, in seconds. Raises `JudgeNotAvailableError` when the environment names a proxy
    but gives no token, or names one that is not on this machine.
    """
    access = access_of(environ)
    return None if access is None else JudgeProxyClient(access, timeout=timeout)


class JudgeProxyClient:
    """Asks the judge. Safe to share between threads; every call that reaches the judge is counted."""

    def __init__(self, access: wire.Access, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._timeout = checked_timeout(timeout)
        self._pool = Pool(access)
        self._url = access.url

    def invoke(
        self,
        *,
        question: str,
        system_prompt: str | None = None,
        target: str | None = None,
        eval_case_id: str | None = None,
        attempt: int | None = None,
    ) -> JudgeReply:
        """One question, one reply; `target` chooses another judge than the default."""
        fields = {
            "question": question,
            "system_prompt": system_prompt,
            "target": target,
            "eval_case_id": eval_case_id,
            "attempt": attempt,
        }
        return wire.parse_reply(self._send(wire.invoke_request(fields)))

    def invoke_batch(self, requests: Iterable[Mapping[str, Any]]) -> list[JudgeReply]:
        """Many questions at once, replies in their order; each is a mapping with the names `invoke` takes.

        An item that failed at the judge is a reply with `error` set; the others keep their answers.
        """
        request, expected = wire.batch_request(requests)
        return wire.parse_batch(self._send(request), expected)

    def verdict(
        self,
        *,
        question: str | None = None,
        criteria: str | None = None,
        material: str | Mapping[str, str] | None = None,
        choices: Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        target: str | None = None,
        attempts: int = 3,
    ) -> Any:
        """An answer that is one of `choices`, or JSON that fits `schema`; anything else is asked for again.

        `material` is what is judged: it is set apart from the question, as evidence. `schema` may use type,
        properties, required, items, enum, const, minimum, maximum, minItems and maxItems. Raises
        `JudgeVerdictError` when no usable answer came in `attempts` calls, or when no call is left to ask again.
        """
        from .verdicts import Form, ask_one  # a judge without verdicts does not load it

        fields = {
            "question": question,
            "criteria": criteria,
            "material": material,
            "system_prompt": system_prompt,
            "target": target,
        }
        return self._follow(ask_one(fields, Form(choices, schema), attempts))

    def verdicts(
        self,
        questions: Iterable[str | Mapping[str, Any]],
        *,
        choices: Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        target: str | None = None,
        attempts: int = 3,
    ) -> list[Any]:
        """Many verdicts at once, in the order of the questions; only those that are missing are asked for again.

        A question is a text, or a mapping with `question` or `criteria`, `material`, `system_prompt`, `target`.
        """
        from .verdicts import Form, ask_many  # as above

        common = {"system_prompt": system_prompt, "target": target}
        found: list[Any] = self._follow(ask_many(questions, common, Form(choices, schema), attempts))
        return found

    def get_info(self) -> JudgeInfo:
        """Who judges and how many calls are left. Costs no call."""
        return wire.parse_info(self._send(wire.info_request()))

    def _follow(self, asking: Asking) -> Any:
        response: Any = None
        while True:
            try:
                request = asking.send(response)
            except StopIteration as done:
                return done.value
            response = self._send(request)

    def _send(self, request: wire.Request) -> wire.Response:
        connection = self._pool.take()
        response = connection.exchange(request, self._timeout)
        self._pool.give_back(connection)
        return response

    def close(self) -> None:
        """Close the idle connections; later calls are refused."""
        self._pool.close()

    def __enter__(self) -> JudgeProxyClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"JudgeProxyClient({self._url!r}, timeout={self._timeout:g})"


def access_of(environ: Mapping[str, str] | None) -> wire.Access | None:
    if environ is None:
        from os import environ as process_environment  # so that tests may replace it whole

        environ = process_environment
    return wire.read_access(environ)


def checked_timeout(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
        raise ValueError(f"timeout is a number of seconds greater than 0, not {timeout!r}")
    return float(timeout)
