"""Turns the interpreter into a zygote (see `zygote.py`); imported because `warm_site` comes first on `sys.path`."""

from __future__ import annotations

import sys
from _frozen_importlib_external import SourceFileLoader

_HERE = __file__.rpartition("/")[0]


def _load(name: str, file: str) -> object:
    """Load a file under a module name that does not clash with a module of the script."""
    module = type(sys)(name)
    module.__file__ = f"{_HERE}/../{file}"
    sys.modules[name] = module
    code = SourceFileLoader(name, module.__file__).get_code(name)
    exec(code, module.__dict__)  # type: ignore[arg-type]  # noqa: S102
    return module


_load("_agentv_helper", "helper.py")
_load("_agentv_zygote", "zygote.py").main(_HERE)  # type: ignore[attr-defined]
