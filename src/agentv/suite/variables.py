"""Variables in suites: `{{ name }}` in the input, the expected values and the options of evaluators of a case.

The variables of a case come from `vars` of the suite, of the entry that names its file, of that file, and of the case
itself, or from the columns of its file; the last one wins. Evaluators can also use the fields in `FIELDS`. Values are
inserted once: a value that looks like a template stays as it is.

Strings of a case without variables are not templates, so suites that were written before still mean the same. In the
options of its evaluators, only strings that name nothing but `FIELDS` are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentv.suite.findings import Findings
from agentv.suite.yaml import NodePath
from agentv.templates import TemplateError, compile_template, has_template
from agentv.text import did_you_mean, some_of

FIELDS = ("input", "reference_answer", "expected_outcome", "metadata", "id")
"""Fields of a case that templates can use like variables. A variable of the same name wins."""
CASE_TEMPLATES = (
    "input",
    "input_messages",
    "question",
    "expected_outcome",
    "outcome",
    "expected_messages",
    "reference_answer",
    "rubrics",
    "turns",
    "user",
)
"""The keys of a case whose strings are templates."""


@dataclass(frozen=True, slots=True)
class CaseValues:
    """What the templates of one case can use."""

    values: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    """Whether the case has variables: then every string is a template, and unknown names are errors."""

    def plus(self, **fields: Any) -> CaseValues:
        """The same values and these fields of the case, which variables of the same name hide."""
        known = {name: value for name, value in fields.items() if value is not None}
        return CaseValues({**known, **self.values}, self.strict)

    def filled(self, value: Any, findings: Findings, at: NodePath, *, typed: bool = False) -> Any:
        """The value with all templates in it rendered. Problems go into `findings`; the string then stays as it is.

        With `typed`, a string that is nothing but `{{ name }}` becomes the value, which may be a number or a list.
        """
        if isinstance(value, str):
            return self._rendered(value, findings, at, typed=typed) if has_template(value) else value
        if isinstance(value, dict):
            return {key: self.filled(item, findings, (*at, key), typed=typed) for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item, findings, (*at, index), typed=typed) for index, item in enumerate(value)]
        return value

    def _rendered(self, text: str, findings: Findings, at: NodePath, *, typed: bool) -> Any:
        is_valid = False
        try:
            template = compile_template(text)
            is_valid = True
            if not self.strict and not self._names_fields(template.names):
                return text
            return template.value(self.values) if typed else template.render(self.values)
        except TemplateError as error:
            if self.strict or error.name is not None:
                findings.add(at, self.explained(error, is_valid=is_valid), line=error.line)
            return text

    def _names_fields(self, names: frozenset[str]) -> bool:
        """Whether a template names only fields of the case. Raises TemplateError for a name that is like one."""
        if names and names <= set(FIELDS):
            return True
        for name in sorted(names - set(FIELDS)):
            if did_you_mean(name, FIELDS):
                raise TemplateError(f"`{name}` is not defined", name=name)
        return False

    def explained(self, error: TemplateError, *, is_valid: bool = False) -> str:
        """The message of a problem with a template, with the names that are known.

        With `is_valid`, the template was compiled, and its rendering failed.
        """
        if error.name is None:
            return f"{'the template cannot be rendered' if is_valid else 'not a valid template'}: {error}"
        if error.is_part:
            return error.message
        known = [name for name in self.values if isinstance(name, str)]
        if error.name in FIELDS:
            return f"`{{{{ {error.name} }}}}` has no value: the case has no `{error.name}`"
        hint = did_you_mean(error.name, known)
        listed = f"; known names: {some_of(sorted(known), near=error.name)}" if known and not hint else ""
        return f"`{{{{ {error.name} }}}}` is not defined{hint}; add it to `vars`{listed}"


def merged(*parts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The variables of several places; later ones win."""
    return {name: value for part in parts if part for name, value in part.items()}
