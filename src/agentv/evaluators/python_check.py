"""`python`: a check in one line of Python, or a Python function in a file or a module."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from agentv.evaluators.inline import InlineCheck, Reference
from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath
from agentv.text import quoted

DEFAULT_FUNCTION = "get_assert"
"""The function of a file that is named without one, as in promptfoo."""
_FILE = re.compile(r"(?:file://)?(?P<file>[^\s:()\[\]'\"]+\.py)(?::(?P<function>[^\W\d][\w.]*))?")
_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d][\w.]*)")


class PythonCheck(InlineCheck):
    """Checks the answer with Python: an expression, a function body, or a function in a file."""

    type: Literal["python"] = "python"

    @classmethod
    def reference_in(cls, value: str) -> Reference | None:
        text = value.strip()
        if file := _FILE.fullmatch(text):
            return Reference(file["function"] or DEFAULT_FUNCTION, file=file["file"])
        module = _MODULE.fullmatch(text)
        if module is None or any(keyword.iskeyword(part) for part in module["module"].split(".")):
            return None
        return Reference(module["function"], module=module["module"])

    @classmethod
    def check_source(cls, source: str) -> None:
        from agentv.evaluators.python_source import check_code  # noqa: PLC0415 - only code needs `ast`

        check_code(source)

    def check_file(self, path: Path, reference: Reference) -> None:
        from agentv.evaluators.python_source import check_function  # noqa: PLC0415 - as above

        check_function(path, reference.function, shown=reference.file or path.name)

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """The module, or its function, if it does not exist."""
        del search
        reference = self.reference_in(self.value)
        if reference is None or reference.module is None:
            return {}
        from agentv.evaluators.python_source import check_function, module_file  # noqa: PLC0415 - as above

        try:
            path = module_file(reference.module, directory)
            if path is not None:
                check_function(path, reference.function, shown=reference.module)
        except LookupError:
            return {
                ("value",): f"`value`: there is no module {quoted(reference.module)} in {directory} or in the packages "
                f"of the Python that runs agentv; for a file, write `{reference.module}.py:{reference.function}`"
            }
        except ValueError as error:
            return {("value",): f"`value`: {error}"}
        return {}

    def depends_on(self, directory: Path) -> list[Path]:
        """The file with the function, or that of its module."""
        reference = self.reference_in(self.value)
        if reference is None or reference.module is None:
            return super().depends_on(directory)
        from agentv.evaluators.python_source import module_file  # noqa: PLC0415 - as above

        try:
            path = module_file(reference.module, directory)
        except LookupError:
            return []
        return [] if path is None else [path]

    def runner(self) -> list[str]:
        # -P: files next to the suite must not shadow modules of the runner, such as `json.py`.
        return ["python", "-P", "-m", "agentv_eval.inline"]
