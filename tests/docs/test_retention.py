"""What the page on retention says of every setting is what the setting is."""

from __future__ import annotations

import re
from pathlib import Path

from ledger.settings import RetentionSettings
from ledger.settings.retention import NamespacePeriods, Periods

PAGE = Path(__file__).parents[2] / "docs" / "retention.md"
ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \|", re.MULTILINE)


def test_the_tables_name_every_setting_with_its_default() -> None:
    told = {name: float(value) for name, value in ROW.findall(PAGE.read_text())}
    fields = {name: field.default for name, field in RetentionSettings.model_fields.items()}
    assert told == {name: float(value) for name, value in fields.items() if name != "namespaces"}


def test_a_namespace_may_set_every_period() -> None:
    assert set(NamespacePeriods.model_fields) == set(Periods.model_fields)
