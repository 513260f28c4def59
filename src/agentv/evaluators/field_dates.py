"""Dates in texts: read by given formats, or by their looks where that leaves no doubt."""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import lru_cache

_TOKENS = {
    "YYYY": "%Y",
    "yyyy": "%Y",
    "YY": "%y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%m",
    "DD": "%d",
    "dd": "%d",
    "D": "%d",
    "d": "%d",
    "HH": "%H",
    "H": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%f",
    "A": "%p",
    "Z": "%z",
    "T": "T",
}
_LETTERS = re.compile("|".join(sorted(_TOKENS, key=len, reverse=True)) + r"|[A-Za-z]+")
_DIRECTIVE = re.compile(r"%(.)", re.DOTALL)
_WHOLE_DAYS = (("Y", "m", "d"), ("Y", "j"), ("G", "V", "u"), ("x",), ("c",))
_ALIKE = {"y": "Y", "b": "m", "B": "m", "h": "m"}

_CLOCK = r"(?:[01][0-9]|2[0-4]):[0-5][0-9](?::[0-6][0-9](?:[.,][0-9]{1,9})?)?"
_TIME = rf"(?:[T ]{_CLOCK}[ ]?(?:Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?"
_YEAR_FIRST = re.compile(rf"([0-9]{{4}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}}){_TIME}", re.ASCII)
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4})", re.ASCII)
_DAY_MONTH = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)?[-/. ]+([A-Za-z]{3,9})[-/., ]+([0-9]{4})", re.ASCII)
_MONTH_DAY = re.compile(r"([A-Za-z]{3,9})\.?[- ]+([0-9]{1,2})(?:st|nd|rd|th)?,?[- ]+([0-9]{4})", re.ASCII)
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)


class NotADateError(ValueError):
    """A text is not a date, or could be two: what is wrong with it, in words that follow the text."""


@lru_cache(maxsize=1024)
def directives(written: str) -> str:
    """A format as `strptime` takes it: tokens like `DD/MM/YYYY` are translated. ValueError says what is wrong."""
    found = written if "%" in written else _translated(written)
    names = {_ALIKE.get(name, name) for name in _DIRECTIVE.findall(found)}
    try:
        datetime.strptime("", found)  # noqa: DTZ007 - only to see whether it is a format
    except ValueError as error:
        if "directive" in str(error) or "stray" in str(error):
            raise ValueError(f"the date format '{written}' cannot be used: {error}") from None
    except re.error:
        raise ValueError(f"the date format '{written}' names one part of a date twice") from None
    if not any(names.issuperset(day) for day in _WHOLE_DAYS):
        raise ValueError(f"the date format '{written}' does not name a day, a month and a year, like `DD/MM/YYYY`")
    return found


def _translated(written: str) -> str:
    def token(match: re.Match[str]) -> str:
        if (directive := _TOKENS.get(match[0])) is None:
            raise ValueError(
                f"'{match[0]}' in the date format '{written}' is not known; use YYYY, MM, DD, MMM (Jan), "
                "MMMM (January), HH, mm, ss, or `strptime` codes like `%d.%m.%Y`"
            )
        return directive

    return _LETTERS.sub(token, written)


def read_date(text: str, formats: tuple[str, ...] = ()) -> date:
    """The calendar day that a text names, as written: a time of day or a time zone moves nothing."""
    text = text.strip()
    return _by_formats(text, formats) if formats else _by_looks(text)


def _by_formats(text: str, formats: tuple[str, ...]) -> date:
    for written in formats:
        try:
            return datetime.strptime(text, directives(written)).date()  # noqa: DTZ007 - the day as written
        except ValueError:
            continue
    if found := _YEAR_FIRST.fullmatch(text):  # nobody reads that in two ways
        return _day(int(found[1]), int(found[3]), int(found[4]))
    raise NotADateError(f"is not a date in the format {' or '.join(formats)}")


def _by_looks(text: str) -> date:
    if found := _YEAR_FIRST.fullmatch(text):
        return _day(int(found[1]), int(found[3]), int(found[4]))
    if found := _DAY_MONTH.fullmatch(text):
        return _day(int(found[3]), _month(found[2]), int(found[1]))
    if found := _MONTH_DAY.fullmatch(text):
        return _day(int(found[3]), _month(found[1]), int(found[2]))
    if found := _YEAR_LAST.fullmatch(text):
        one, other, year = int(found[1]), int(found[3]), int(found[4])
        if one != other and one <= len(_MONTHS) and other <= len(_MONTHS):
            between = found[2]
            raise NotADateError(
                "could be two dates, the day or the month first; "
                f"give the field `formats: [DD{between}MM{between}YYYY]` (or MM{between}DD{between}YYYY)"
            )
        return _day(year, other, one) if one > len(_MONTHS) else _day(year, one, other)
    raise NotADateError("is not a date that can be read without `formats`")


def _month(name: str) -> int:
    wanted = name.lower()
    for number, month in enumerate(_MONTHS, 1):
        if wanted in (month, month[:3]) or (wanted == "sept" and month == "september"):
            return number
    raise NotADateError("is not a date that can be read without `formats`")


def _day(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise NotADateError("is a day that no calendar has") from None
