"""The manual's page about the front door says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ledger import payload
from ledger.figures.refusals import Refusal
from ledger.receiver.refused import REFUSED, STATUS
from ledger.settings import AlertSettings, ReceiverSettings, SourceSettings

PAGE = (Path(__file__).parents[2] / "docs" / "front-door.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([0-9, ]+) \| `(\w+)` \|", PAGE, re.MULTILINE)


def test_each_refusal_stands_there_with_its_status() -> None:
    assert sorted(reason for _, reason in ROWS) == sorted(Refusal)
    said = {reason: statuses.split(", ") for statuses, reason in ROWS}
    assert all(str(status) in said[reason] for reason, status in STATUS.items())
    assert f"`{REFUSED.strip()}`" in PAGE


def test_the_limits_are_the_defaults() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    limits = tomllib.loads(block)["receiver"]
    assert limits == {name: getattr(ReceiverSettings(), name) for name in limits}
    limits_said = f"{payload.DEPTH_MAX} levels, {payload.VALUES_MAX:,} values and {payload.DIGITS_MAX} digits"
    assert limits_said in " ".join(PAGE.split())
    assert "refused_max" in AlertSettings.model_fields
    assert f"{SourceSettings.model_fields['tolerance_s'].default:g} by default, both ways" in PAGE
