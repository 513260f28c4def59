"""Metrics of other libraries: one adapter per library, a plain judge script that runs any metric of it.

The evaluator type `metric` runs the adapters (`deepeval:FaithfulnessMetric`), and `agentv judge new --from` copies
them. They run where the library is installed, which need not be agentv's environment: they import only the library and
the SDK. Their names must not be those of modules that the libraries import, because their directory is on the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Unwanted(NamedTuple):
    """What importing a library does besides, and the variables that stop it."""

    what: str
    variables: Mapping[str, str]


class Library(NamedTuple):
    """A library whose metrics can be used by name."""

    title: str
    requirements: tuple[str, ...]
    """What to install."""
    module: str
    unwanted: Unwanted | None = None

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that stop what its import does besides."""
        return {} if self.unwanted is None else self.unwanted.variables

    @property
    def python(self) -> str:
        """The option of an evaluator that installs it."""
        return f"python: [{', '.join(_quoted(requirement) for requirement in self.requirements)}]"


LIBRARIES: Mapping[str, Library] = {
    "deepeval": Library(
        "DeepEval",
        ("deepeval",),
        "deepeval",
        Unwanted(
            "sends telemetry and reads `.env` files",
            {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_DISABLE_DOTENV": "1"},
        ),
    ),
    "ragas": Library(
        "Ragas",
        ("ragas", "langchain-community<0.4"),  # ragas 0.4.3 imports a module that 0.4 no longer has
        "ragas",
        Unwanted("sends telemetry", {"RAGAS_DO_NOT_TRACK": "true"}),
    ),
    "autoevals": Library("autoevals", ("autoevals", "openai"), "autoevals"),
    "openevals": Library(
        "openevals",
        ("openevals",),
        "openevals",
        Unwanted("sends traces to LangSmith if your environment enables them", {"LANGSMITH_TRACING": "false"}),
    ),
    "llamaindex": Library(
        "LlamaIndex",
        ("llama-index-core", "llama-index-llms-openai", "llama-index-embeddings-openai"),
        "llama_index",
    ),
}
"""Libraries by name. To add one, write an adapter and add a line here."""


_TO_CHANGE = """\
`METRIC` and `PARAMETERS` say what to measure, and `FIELDS` where in the case the metric finds what it needs. The other
functions work for every metric of the library: remove what this one does not need."""
"""What the reader of a written script wants to know first."""


def adapter_of(library: str) -> Path:
    """The judge script that runs metrics of a library."""
    return Path(__file__).with_name(f"{library}_metric.py")


def library_name(written: str) -> str:
    """The name of a library as in `LIBRARIES`: `llama_index` is `llamaindex`."""
    return written.strip().lower().replace("_", "").replace("-", "")


def adapter_for(library: str, metric: str) -> str:
    """The source of the adapter with its metric filled in."""
    _, _, code = adapter_of(library).read_text(encoding="utf-8").partition("\n")
    about = f'"""Scores the case with `{metric}` of {LIBRARIES[library].title}.\n\n{_TO_CHANGE}\n"""\n'
    filled = about + code.replace('METRIC = ""', f"METRIC = {_literal(metric)}", 1)
    return filled.replace("def judge(", f"def {file_name(metric)}(", 1)


def file_name(metric: str) -> str:
    """The name of a file for a metric: `ClosedQA` is `closed_qa`, `CORRECTNESS_PROMPT` is `correctness_prompt`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", metric).lower()


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(requirement: str) -> str:
    return requirement if re.fullmatch(r"[\w.-]+", requirement) else f'"{requirement}"'
