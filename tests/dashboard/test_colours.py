"""Colour means state, and everybody can tell: contrast by computation, in both themes, and one table everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dashboard.colours import PAGES, PILLS, SHADES, THEME_NAMES, Mode, State

HOUSE = Path(__file__).parents[2]
CONFIG: dict[str, Any] = tomllib.loads((HOUSE / ".streamlit" / "config.toml").read_text())
STYLE = (HOUSE / "dashboard" / "style.css").read_text()
MODES: tuple[Mode, ...] = ("light", "dark")
STATES: tuple[State, ...] = ("waiting", "working", "done", "person", "broken", "twin")
TEXT, SHAPE = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_itself() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") < TEXT < contrast("#767676", "#FFFFFF")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_a_state_is_seen_and_its_words_are_read(mode: Mode, state: State) -> None:
    shade, page = SHADES[mode][state], PAGES[mode].page
    assert contrast(shade.fill, page) >= SHAPE
    assert contrast(shade.text, shade.tint) >= TEXT
    assert contrast(PAGES[mode].ink, shade.tint) >= TEXT


@pytest.mark.parametrize("mode", MODES)
def test_ink_soft_text_edges_and_buttons_are_read(mode: Mode) -> None:
    page, theme = PAGES[mode], CONFIG["theme"][mode]
    assert contrast(page.ink, page.page) >= 7 and contrast(page.soft, page.page) >= TEXT
    assert contrast(page.edge, page.page) >= SHAPE
    assert (
        contrast("#FFFFFF", theme["primaryColor"]) >= TEXT
    )  # Streamlit writes white on primary buttons, always
    assert all(
        contrast(page.ink if mode == "light" else "#FFFFFF", pill) >= 7 for pill in PILLS[mode].values()
    )


@pytest.mark.parametrize("mode", MODES)
def test_the_theme_says_the_same_colours(mode: Mode) -> None:
    theme = CONFIG["theme"][mode]
    for state, name in THEME_NAMES.items():
        told = (theme[f"{name}Color"], theme[f"{name}TextColor"], theme[f"{name}BackgroundColor"])
        assert told == tuple(SHADES[mode][state])
    assert (theme["backgroundColor"], theme["textColor"]) == (PAGES[mode].page, PAGES[mode].ink)


def test_the_style_says_the_same_colours() -> None:
    for state in STATES:
        for suffix, part in (("", "text"), ("-bg", "tint"), ("-fill", "fill")):
            both = [getattr(SHADES[mode][state], part) for mode in MODES]
            assert f"--nt-{state}{suffix}: light-dark({both[0]}, {both[1]})" in STYLE, (state, part)
    assert set(re.findall(r"#[0-9A-Fa-f]{6}", STYLE)) <= {
        colour for mode in MODES for colour in (*PAGES[mode], *(c for s in STATES for c in SHADES[mode][s]))
    }
