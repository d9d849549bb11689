"""What the tables of the configuration file are made of: units with their bounds, and words for what is wrong."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Table(BaseModel):
    """One table: frozen, and a name it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def wrong(name: str | tuple[str, ...], what: str) -> PydanticCustomError:
    """An error that says which name inside the table it is about."""
    inner = (name,) if isinstance(name, str) else name
    return PydanticCustomError("wrong", "{what}", {"what": what, "inner": inner})
