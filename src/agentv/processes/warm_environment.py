"""The environment of a zygote (see `zygote.py`) during the imports of a script.

The values of some variables differ between executions: the addresses and the token of the judge proxy. A library that
copies the whole environment while it is imported must not miss them, or it would later use the address of a vendor. So
during the imports these variables have placeholders: unguessable words, and addresses that do not exist. Afterwards
all objects are searched for copies of the placeholders, and each execution replaces them by its own values. If a copy
cannot be replaced, the process must not be forked.
"""

from __future__ import annotations

# ruff: noqa: B905, SLF001  runs in Python 3.9
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    Slot = tuple[Any, Any, str | bytes]
    """A dictionary or a list, a key or an index, and the text with a placeholder that is there."""

TEXT = (str, bytes, bytearray)
LEVELS, MOST = 5, 1000
"""How many steps to go from a copy to the module that the message names, and with how many objects."""


class Watched(dict[bytes, bytes]):
    """The environment during the imports. Records variables of one execution that are read by name.

    Reading all variables, one after the other, is allowed: that is what copies of the environment do.
    """

    def __init__(self, data: dict[bytes, bytes], own: dict[bytes, bytes | None]) -> None:
        """`own` are the variables whose values differ between executions; addresses have their paths, others None."""
        super().__init__(data)
        self.asked: bytes | None = None
        self.mark = "-".join(str(int.from_bytes(os.urandom(4), "big")) for _ in range(4))
        """What all placeholders contain, without letters: a change to upper or lower case does not hide it."""
        self.raw_mark = self.mark.encode()
        self.placeholders: dict[bytes, bytes] = {}
        self._previous: dict[bytes, bytes] = {}
        self._last: bytes | None = None
        for number, name in enumerate(sorted(own)):
            word = f"agentv-warm-{self.mark}-{number:02}"
            path = own[name]
            self.placeholders[name] = word.encode() if path is None else f"http://{word}.invalid".encode() + path
        self.update(self.placeholders)

    def __getitem__(self, name: bytes) -> bytes:
        if name in self.placeholders and (name not in self._previous or self._previous[name] != self._last):
            self.asked = name
        self._last = name
        return super().__getitem__(name)

    def __setitem__(self, name: bytes, value: bytes) -> None:
        if name in self.placeholders:
            self.asked = name
        super().__setitem__(name, value)

    def __delitem__(self, name: bytes) -> None:
        if name in self.placeholders:
            self.asked = name
        super().__delitem__(name)

    def __iter__(self) -> Iterator[bytes]:
        names = list(super().__iter__())
        self._previous, self._last = dict(zip(names[1:], names)), None
        return iter(names)

    def install(self) -> None:
        os.environ._data = os.environb._data = self  # type: ignore[attr-defined]
        for name, placeholder in self.placeholders.items():
            os.putenv(name, placeholder)  # for libraries in C

    def end(self, variables: list[bytes]) -> None:
        """In the process of an execution: use its values, given as `NAME=value`, instead of the placeholders."""
        data = {name: value for name, value in dict.items(self) if name not in self.placeholders}
        os.environ._data = os.environb._data = data  # type: ignore[attr-defined]
        for name in self.placeholders:
            os.unsetenv(name)
        for variable in variables:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        dict.update(self, data)  # a shallow copy of `os.environ` has this dictionary, too


class Copies:
    """The copies of placeholders that imports have left in objects."""

    def __init__(self, environ: Watched) -> None:
        self._environ = environ
        self._slots: list[Slot] = []
        self._class_members: set[int] = set()
        """Ids of the dictionaries of classes: a change there would go past the interpreter's caches."""
        self._url: type | None = None
        self._urls: type | None = None

    def refusal(self) -> str | None:
        """Find all copies. Returns why they cannot be replaced; None if they can."""
        if not self._environ.placeholders:
            return None
        collecting = gc.isenabled()
        gc.disable()  # or it would run many times during the search
        gc.unfreeze()  # objects that an import has frozen would not be found
        try:
            return self._find()
        finally:
            if collecting:
                gc.enable()

    def _find(self) -> str | None:
        for holder, texts in self._holders():
            slots = self._slots_of(holder, texts)
            if slots is None:
                names = self._names(texts)
                return f"its imports keep {names} where it cannot be replaced for each execution ({place(holder)})"
            self._slots += slots
        return None

    def fill(self, variables: list[bytes]) -> None:
        """Replace the placeholders in all copies by the values of an execution, given as `NAME=value`."""
        values = dict(variable.split(b"=", 1) for variable in variables)
        for container, key, text in self._slots:
            container[key] = self._replaced(text, values)

    def _replaced(self, text: str | bytes, values: dict[bytes, bytes]) -> str | bytes:
        for name, placeholder in self._environ.placeholders.items():
            value = values.get(name, b"")
            if isinstance(text, bytes):
                text = text.replace(placeholder, value)
            else:
                text = text.replace(placeholder.decode(), os.fsdecode(value))
        return text

    def _names(self, texts: list[Any]) -> str:
        joined = " ".join(text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in texts)
        names = [name for name, placeholder in self._environ.placeholders.items() if placeholder.decode() in joined]
        return ", ".join(map(os.fsdecode, names)) or "a part of a variable"

    def _holders(self) -> list[tuple[Any, list[Any]]]:
        """Every object that refers to text with a placeholder, with this text."""
        environ = self._environ
        core = sys.modules.get("pydantic_core")  # the text of its addresses is not a Python object
        self._url, self._urls = getattr(core, "Url", None), getattr(core, "MultiHostUrl", None)
        own = {id(environ), id(environ.__dict__), id(environ.placeholders), *running()}
        gc.collect()
        holders: list[tuple[Any, list[Any]]] = []
        things, seen = gc.get_objects(), {0}
        while things:
            untracked: list[Any] = []
            for thing in things:
                referents = gc.get_referents(thing)
                texts = self._texts(referents, untracked)
                # Not `isinstance`, which asks the object. Strings that are keys are not among the referents.
                if issubclass(type(thing), dict):
                    texts += self._texts([key for key in dict.keys(thing) if type(key) is str], [])
                elif issubclass(type(thing), type):
                    self._class_members.update(id(each) for each in referents if type(each) is dict)
                if texts and id(thing) not in own:
                    holders.append((thing, texts))
            things = [each for each in untracked if id(each) not in seen]
            seen.update(map(id, things))
        return holders

    def _texts(self, referents: list[Any], untracked: list[Any]) -> list[Any]:
        """The text with placeholders. Adds containers that the garbage collector ignores to `untracked`."""
        letters, raw = self._environ.mark, self._environ.raw_mark
        texts: list[Any] = []  # filled without comprehensions, which would keep `letters` in one more object
        for each in referents:
            kind = type(each)
            if kind is str:
                if letters in each:
                    texts.append(each)
            elif kind is bytes:
                if raw in each:
                    texts.append(each)
            elif kind is dict or kind is tuple:
                if not gc.is_tracked(each):
                    untracked.append(each)
            elif issubclass(kind, TEXT):
                if self._marked(each):
                    texts.append(each)
            elif (kind is self._url or kind is self._urls) and letters in str(each):
                texts.append(each)
        return texts

    def _slots_of(self, holder: Any, texts: list[Any]) -> list[Slot] | None:
        """Where the object has the text; None if it cannot be replaced everywhere."""
        slots: list[Slot]
        if issubclass(type(holder), list):
            slots = [(holder, index, text) for index, text in enumerate(holder) if self._marked(text)]
        elif id(holder) in self._class_members:
            return None
        else:
            members = holder
            if not issubclass(type(holder), dict):
                try:
                    members = object.__getattribute__(holder, "__dict__")
                except Exception:
                    return None
            if not issubclass(type(members), dict):
                return None
            slots = [(members, key, text) for key, text in dict.items(members) if self._marked(text)]
        whole = all(type(text) in (str, bytes) and not self._marked(self._replaced(text, {})) for _, _, text in slots)
        return slots if whole and len(slots) == len(texts) else None

    def _marked(self, text: Any) -> bool:
        if issubclass(type(text), str):
            return self._environ.mark in text
        return issubclass(type(text), TEXT) and self._environ.raw_mark in text


def running() -> set[int]:
    """Ids of the frames of this thread, whose variables are ours."""
    frame: FrameType | None = sys._getframe()
    ids = set()
    while frame is not None:
        ids.add(id(frame))
        frame = frame.f_back
    return ids


def place(thing: Any) -> str:
    """What an object is, and the variable of a module that leads to it, if there is one."""
    kind = f"in a {type(thing).__name__}"
    level = [thing]
    for _ in range(LEVELS):
        ids = {id(each) for each in level}
        referrers = [each for each in gc.get_referrers(*level) if each is not level and id(each) not in running()]
        for each in referrers:
            if type(each) is dict and each is vars(sys.modules.get(str(each.get("__name__")), sys)):
                name = next((key for key, value in each.items() if id(value) in ids), "?")
                return f"{kind} of `{each['__name__']}.{name}`"
        level = referrers[:MOST]
        if not level:
            break
    return kind
