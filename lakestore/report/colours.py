"""The colours of charts and page, and which one stands for which in the dark."""

from __future__ import annotations

PAPER, INK, MUTED, GRID = "#ffffff", "#1c2127", "#59636e", "#dfe3e8"

SERIES = (
    "#2f68b1",
    "#cf6a1b",
    "#2f8a57",
    "#a1489a",
    "#bf3848",
    "#1f8597",
    "#84702a",
    "#6e7781",
)
"""One for each thing in a chart; all are 3:1 or more against the paper."""

STEPS = ("#eef3fa", "#c9daf0", "#93b6e0", "#4a7fc0", "#1f4f91")
"""From little to much."""

DARK = {
    PAPER: "#14181d",
    INK: "#e6e9ed",
    MUTED: "#a5adb8",
    GRID: "#343b44",
    "#2f68b1": "#7db0f0",
    "#cf6a1b": "#f0a05c",
    "#2f8a57": "#6fcb98",
    "#a1489a": "#df90d7",
    "#bf3848": "#f2828f",
    "#1f8597": "#62c9db",
    "#84702a": "#cdb866",
    "#6e7781": "#a9b2bd",
    "#eef3fa": "#1c2a3d",
    "#c9daf0": "#24416a",
    "#93b6e0": "#2f62a5",
    "#4a7fc0": "#7db0f0",
    "#1f4f91": "#b9d6fb",
}
"""Of each colour above, the one for people who prefer the dark."""
