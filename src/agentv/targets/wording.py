"""`system_prompt` and `prompt` of a target: what is added to every case that is sent to it.

They are templates with the variables of the case; `{{ input }}` in `prompt` is the text of the last user message.
Calls to the target as a judge are not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agentv.errors import ProviderError
from agentv.messages import Message, part_text, whole_text
from agentv.targets.provider import Request, TargetSettings
from agentv.templates import Template, TemplateError, compile_template

INPUT = "input"
OPTIONS = ("system_prompt", "prompt")


@dataclass(frozen=True, slots=True)
class Wording:
    """The templates of one target."""

    target: str
    system_prompt: Template | None
    prompt: Template | None

    async def __call__(self, request: Request) -> Request:
        """The request with the templates of the target. ProviderError if a variable has no value."""
        named = request.naming_files
        return replace(
            request,
            messages=await self._worded(request.messages, request),
            naming_files=None if named is None else await self._worded(named, request),
        )

    async def _worded(self, messages: tuple[Message, ...], request: Request) -> tuple[Message, ...]:
        if self.prompt is not None:
            messages = await self._asked(self.prompt, messages, request)
        if self.system_prompt is not None:
            system = await self._rendered("system_prompt", self.system_prompt, request, {})
            before = [message for message in messages if message.role == "system"]
            text = "\n\n".join([system, *map(whole_text, before)])
            messages = (Message("system", text), *(message for message in messages if message.role != "system"))
        return messages

    async def _asked(self, template: Template, messages: tuple[Message, ...], request: Request) -> tuple[Message, ...]:
        places = [place for place, message in enumerate(messages) if message.role == "user"]
        if not places:
            return messages
        last = messages[places[-1]]
        parts = last.content if isinstance(last.content, list) else []
        text = "\n\n".join(filter(None, map(part_text, parts))) if parts else whole_text(last)
        content: Any = await self._rendered("prompt", template, request, {INPUT: text})
        others = [part for part in parts if not part_text(part)]
        if others:  # such as images
            content = [{"type": "text", "value": content}, *others]
        return (*messages[: places[-1]], replace(last, content=content), *messages[places[-1] + 1 :])

    async def _rendered(self, option: str, template: Template, request: Request, more: dict[str, Any]) -> str:
        try:
            text: str = await template.rendered({"vars": request.vars, **request.vars, **more})
        except TemplateError as error:
            raise ProviderError(
                f"target '{self.target}': `{option}` cannot be rendered: {error}",
                next_step="Add the variable to `vars` of the case, or remove it from the target.",
            ) from None
        return text

    def unknown(self, variables: Iterable[str]) -> dict[str, str]:
        """For each option, a variable that is none of these."""
        known = {*variables, "vars"}
        names = {
            "system_prompt": self.system_prompt.names - known if self.system_prompt else frozenset(),
            "prompt": self.prompt.names - known - {INPUT} if self.prompt else frozenset(),
        }
        return {option: min(missing) for option, missing in names.items() if missing}


def wording_of(target: str, settings: TargetSettings) -> Wording:
    """What a target adds to its cases."""
    system, prompt = settings.system_prompt, settings.prompt
    return Wording(
        target,
        None if system is None else compile_template(system),
        None if prompt is None else compile_template(prompt),
    )
