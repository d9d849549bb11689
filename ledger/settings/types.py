"""What the tables of the configuration file are made of: units with their bounds, and words for what is wrong."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

SPAN_DAYS_MAX = 36_500  # a hundred years; beyond the calendar's end a time cannot be reckoned with
SPAN_S_MAX = SPAN_DAYS_MAX * 86_400.0
COUNT_MAX = 2**31 - 1  # what the ledger's columns hold
Seconds = Annotated[float, Field(ge=0, le=SPAN_S_MAX, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, le=SPAN_S_MAX, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Number = Annotated[int, Field(ge=0, le=COUNT_MAX)]


class Table(BaseModel):
    """One table: frozen, and a name it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def wrong(name: str | tuple[str, ...], what: str) -> PydanticCustomError:
    """An error that says which name inside the table it is about."""
    inner = (name,) if isinstance(name, str) else name
    return PydanticCustomError("wrong", "{what}", {"what": what, "inner": inner})


UNCLEAR = "begins or ends with a blank, or has a sign that cannot be seen"


def is_clear(text: str) -> bool:
    """Whether people see all of it: no blank at an end, nothing without a shape, no NUL, which no column holds."""
    return text == text.strip() and text.isprintable()


def _name(text: str) -> str:
    if not is_clear(text):
        raise wrong((), UNCLEAR)
    return text


Text = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[Text, AfterValidator(_name)]
HOST = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)


def _host(value: Any) -> Any:
    """What a socket can be bound to: an address, or a name. Empty is left to whoever has the setting."""
    if not isinstance(value, str) or not value or HOST.fullmatch(value):
        return value
    try:
        ip_address(value)
    except ValueError:
        raise wrong(
            (), "is no address to listen on; write 127.0.0.1, 0.0.0.0, :: without brackets, or a name"
        ) from None
    return value


Host = Annotated[str, BeforeValidator(_host)]
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
UNITS_S = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds_of(text: str) -> float | None:
    """`90 s`, `10min`, `2 h`, `1d` in seconds; None for what is no span, or none of a hundred years at most."""
    found = SPAN.fullmatch(text.strip())
    if found is None or found[2] not in UNITS_S:
        return None
    seconds = float(found[1]) * UNITS_S[found[2]]
    return seconds if 0 < seconds <= SPAN_S_MAX else None


def _span(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if (seconds := seconds_of(value)) is None:
        raise wrong((), 'is no span of time; write "90 s", "10 min", "2 h", "1 d", or seconds as a number')
    return seconds


Span = Annotated[float, Field(gt=0, le=SPAN_S_MAX, allow_inf_nan=False), BeforeValidator(_span)]
