"""The judge client."""

from __future__ import annotations

from . import wire
from .connection import Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, TypeVar

    from .values import JudgeInfo, JudgeReply

    T = TypeVar("T")
    Exchanges = Generator[wire.Request, wire.Response, T]

DEFAULT_TIMEOUT = 120.0


def create_judge_proxy_client(
    *, timeout: float = DEFAULT_TIMEOUT, environ: Mapping[str, str] | None = None
) -> JudgeProxyClient | None:
    """A client for the judge that agentv gives this script access to, or `None` if judge access is off.

    `timeout` applies to each call, in seconds; waiting for a slot of the judge does not count. Raises
    `JudgeNotAvailableError` if the environment contains the URL of a proxy without a token, or a URL that is not on
    this machine.
    """
    access = access_of(environ)
    return None if access is None else JudgeProxyClient(access, timeout=timeout)


class JudgeCalls:
    """The calls that both clients share.

    Each call is a generator that yields requests and receives responses. The clients differ only in `_run`, which sends
    the requests and returns the result, or a coroutine that returns it.
    """

    def __init__(self, access: wire.Access, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._timeout = checked_timeout(timeout)
        self._pool = Pool(access)
        self._url = access.url

    def _run(self, exchanges: Exchanges[T]) -> T:
        raise NotImplementedError

    def invoke(
        self,
        *,
        question: str,
        system_prompt: str | None = None,
        target: str | None = None,
        eval_case_id: str | None = None,
        attempt: int | None = None,
    ) -> JudgeReply:
        """Ask one question. `target` selects a judge other than the default."""
        fields = {
            "question": question,
            "system_prompt": system_prompt,
            "target": target,
            "eval_case_id": eval_case_id,
            "attempt": attempt,
        }
        return self._run(_invoke(fields))

    def invoke_batch(self, requests: Iterable[Mapping[str, Any]]) -> list[JudgeReply]:
        """Ask many questions in one request. Each is a mapping with the keyword arguments of `invoke`.

        Replies are in the order of the questions. If the judge fails for an item, only that reply has `error` set.
        """
        return self._run(_invoke_batch(requests))

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
        """An answer that is one of `choices`, or JSON that matches `schema`. Invalid answers are retried.

        `material` is the text to be judged; the prompt marks it as evidence, separate from the question. `schema` may
        use type, properties, required, items, enum, const, minimum, maximum, minItems and maxItems. Raises
        `JudgeVerdictError` after `attempts` invalid answers, or if no call is left for a retry.
        """
        fields = {
            "question": question,
            "criteria": criteria,
            "material": material,
            "system_prompt": system_prompt,
            "target": target,
        }
        return self._run(_verdict(fields, choices, schema, attempts))

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
        """Many verdicts in one request, in the order of the questions. Only questions without a verdict are retried.

        A question is a string, or a mapping with `question` or `criteria`, `material`, `system_prompt`, `target`.
        """
        common = {"system_prompt": system_prompt, "target": target}
        return self._run(_verdicts(questions, common, choices, schema, attempts))

    def get_info(self) -> JudgeInfo:
        """The default judge target, the available targets and the call counts. Does not count as a call."""
        return self._run(_get_info())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r}, timeout={self._timeout:g})"


def _invoke(fields: Mapping[str, Any]) -> Exchanges[JudgeReply]:
    return wire.parse_reply((yield wire.invoke_request(fields)))


def _invoke_batch(requests: Iterable[Mapping[str, Any]]) -> Exchanges[list[JudgeReply]]:
    request, expected = wire.batch_request(requests)
    return wire.parse_batch((yield request), expected)


def _get_info() -> Exchanges[JudgeInfo]:
    return wire.parse_info((yield wire.info_request()))


def _verdict(
    fields: Mapping[str, Any], choices: Sequence[str] | None, schema: Mapping[str, Any] | None, attempts: int
) -> Exchanges[Any]:
    from .verdicts import Form, ask_one  # not loaded by judges that never ask for a verdict

    return (yield from ask_one(fields, Form(choices, schema), attempts))


def _verdicts(
    questions: Iterable[str | Mapping[str, Any]],
    common: Mapping[str, Any],
    choices: Sequence[str] | None,
    schema: Mapping[str, Any] | None,
    attempts: int,
) -> Exchanges[list[Any]]:
    from .verdicts import Form, ask_many  # as above

    verdicts: list[Any] = yield from ask_many(questions, common, Form(choices, schema), attempts)
    return verdicts


class JudgeProxyClient(JudgeCalls):
    """A client for the judge. Safe to share between threads. Every call that reaches the judge is counted."""

    def _run(self, exchanges: Exchanges[T]) -> T:
        response: Any = None
        while True:
            try:
                request = exchanges.send(response)
            except StopIteration as done:
                result: T = done.value
                return result
            connection = self._pool.take()
            response = connection.exchange(request, self._timeout)
            self._pool.give_back(connection)

    def close(self) -> None:
        """Close idle connections and reject later calls."""
        self._pool.close()

    def __enter__(self) -> JudgeProxyClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def access_of(environ: Mapping[str, str] | None) -> wire.Access | None:
    if environ is None:
        from os import environ as process_environment  # read now, so that tests can replace it

        environ = process_environment
    return wire.read_access(environ)


def checked_timeout(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
        raise ValueError(f"timeout must be a number of seconds greater than 0, got {timeout!r}")
    return float(timeout)
