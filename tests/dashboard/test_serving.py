"""How the console's server begins."""

from __future__ import annotations

import importlib.metadata

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.components.v2.component_manager import BidiComponentManager

from dashboard import serving


def test_nobody_looks_what_other_packages_would_add_to_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: looked.append("looked") or [])
    streamlits = (
        manifest_scanner.scan_component_manifests.__wrapped__
    )  # which our conftest keeps from looking twice
    monkeypatch.setattr(manifest_scanner, "scan_component_manifests", streamlits)
    BidiComponentManager().discover_and_register_components(start_file_watching=False)
    assert looked == ["looked"]
    serving.bring_no_components()
    BidiComponentManager().discover_and_register_components(start_file_watching=False)
    assert looked == ["looked"]
