"""Turns the interpreter into a zygote (see `zygote.py`); imported because `warm_site` comes first on `sys.path`."""

# ruff: noqa: UP036  any Python may run this file, also Python 2
import sys

_REASON = None
if sys.version_info < (3, 9):
    _REASON = b"its Python is older than 3.9"
elif sys.implementation.name != "cpython" or "t" in sys.abiflags:
    _REASON = b"its Python is not CPython with a global interpreter lock"
if _REASON is not None:  # before this interpreter runs the script
    import os

    os.write(0, b"N" + _REASON)
    os._exit(0)

from _frozen_importlib_external import SourceFileLoader  # noqa: E402

_HERE = __file__.rpartition("/")[0]
for _file in ("helper", "warm_environment", "warm_imports", "warm_threads", "zygote"):
    # Under names that do not clash with modules of the script.
    _name = "_agentv_" + _file
    _module = sys.modules[_name] = type(sys)(_name)
    _module.__file__ = _HERE + "/../" + _file + ".py"
    _code = SourceFileLoader(_name, _module.__file__).get_code(_name)
    exec(_code, _module.__dict__)  # type: ignore[arg-type]  # noqa: S102
_module.main(_HERE)
