"""Parse dates, with given formats or, where they are unambiguous, without."""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import lru_cache

LONGEST_DATE = 200
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
    """A string is not a date, or is ambiguous. The message is a verb phrase: "is not a date ..."."""


@lru_cache(maxsize=1024)
def directives(written: str) -> str:
    """Return a date format for `strptime`, translating tokens like `DD/MM/YYYY`. Raises ValueError if it is invalid."""
    if len(written) > LONGEST_DATE:
        raise ValueError(f"a date format must have at most {LONGEST_DATE} characters, got {len(written):,}")
    format_ = written if "%" in written else _translated(written)
    names = {_ALIKE.get(name, name) for name in _DIRECTIVE.findall(format_)}
    try:
        datetime.strptime("", format_)  # noqa: DTZ007 - only checks whether the format is valid
    except ValueError as error:
        if "directive" in str(error) or "stray" in str(error):
            raise ValueError(f"invalid date format '{written}': {error}") from None
    except re.error:
        raise ValueError(f"invalid date format '{written}': one part of the date occurs twice") from None
    if not any(names.issuperset(day) for day in _WHOLE_DAYS):
        raise ValueError(f"the date format '{written}' must contain day, month and year, like `DD/MM/YYYY`")
    return format_


def _translated(written: str) -> str:
    def token(match: re.Match[str]) -> str:
        if (directive := _TOKENS.get(match[0])) is None:
            raise ValueError(
                f"unknown token '{match[0]}' in the date format '{written}'; use YYYY, MM, DD, MMM (Jan), "
                "MMMM (January), HH, mm, ss, or `strptime` codes like `%d.%m.%Y`"
            )
        return directive

    return _LETTERS.sub(token, written)


def read_date(text: str, formats: tuple[str, ...] = ()) -> date:
    """Return the calendar day as written. A time of day or a time zone does not shift it."""
    text = text.strip()
    if len(text) > LONGEST_DATE:
        raise NotADateError(f"is longer than {LONGEST_DATE} characters and not a date")
    return _by_formats(text, formats) if formats else _by_looks(text)


def _by_formats(text: str, formats: tuple[str, ...]) -> date:
    for written in formats:
        try:
            return datetime.strptime(text, directives(written)).date()  # noqa: DTZ007 - the day as written
        except ValueError:
            continue
    if match := _YEAR_FIRST.fullmatch(text):  # unambiguous whatever the formats are
        return _day(int(match[1]), int(match[3]), int(match[4]))
    raise NotADateError(f"is not a date in the format {' or '.join(formats)}")


def _by_looks(text: str) -> date:
    if match := _YEAR_FIRST.fullmatch(text):
        return _day(int(match[1]), int(match[3]), int(match[4]))
    if match := _DAY_MONTH.fullmatch(text):
        return _day(int(match[3]), _month(match[2]), int(match[1]))
    if match := _MONTH_DAY.fullmatch(text):
        return _day(int(match[3]), _month(match[1]), int(match[2]))
    if match := _YEAR_LAST.fullmatch(text):
        one, other, year = int(match[1]), int(match[3]), int(match[4])
        if one != other and one <= len(_MONTHS) and other <= len(_MONTHS):
            between = match[2]
            raise NotADateError(
                "is ambiguous: the day or the month may come first; "
                f"set `formats: [DD{between}MM{between}YYYY]` (or MM{between}DD{between}YYYY) for this field"
            )
        return _day(year, other, one) if one > len(_MONTHS) else _day(year, one, other)
    raise NotADateError("is not a date in a known format; set `formats` for this field")


def _month(name: str) -> int:
    wanted = name.lower()
    for number, month in enumerate(_MONTHS, 1):
        if wanted in (month, month[:3]) or (wanted == "sept" and month == "september"):
            return number
    raise NotADateError("is not a date in a known format; set `formats` for this field")


def _day(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise NotADateError("is a date that does not exist") from None
