"""Colours: Okabe and Ito's palette, for light and for dark paper, distinguishable by colour-blind people."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one kind of paper; text keeps a contrast of at least 4.5, marks of 3."""

    paper: str
    ink: str
    muted: str
    grid: str
    shade: str
    floor: str
    ceiling: str
    refuted: str
    accent: str
    third: str
    fourth: str
    fifth: str
    card: str
    warm: str
    ceiling_text: str

    def css(self) -> str:
        """The colours as variables of a style sheet."""
        return " ".join(f"--{field.name.replace('_', '-')}: {getattr(self, field.name)};" for field in fields(self))


# Further lines of one chart are their green, purple and yellow, each as dark or light as the paper asks for.
# Marks are Okabe and Ito's blue and vermilion; on dark paper their sky blue and orange take over.
LIGHT = Theme(
    paper="#ffffff",
    ink="#1b1f24",
    muted="#57606a",
    grid="#d8dee4",
    shade="#cfe3f2",
    floor="#0072b2",
    ceiling="#d55e00",
    refuted="#57606a",
    accent="#0072b2",
    third="#00795a",
    fourth="#a8578b",
    fifth="#8a6a00",
    card="#f6f8fa",
    warm="#e69f00",
    ceiling_text="#b04d00",
)
DARK = Theme(
    paper="#12161b",
    ink="#e8edf2",
    muted="#a3adb8",
    grid="#333c46",
    shade="#1f3a4d",
    floor="#56b4e9",
    ceiling="#e69f00",
    refuted="#a3adb8",
    accent="#56b4e9",
    third="#2fbf92",
    fourth="#cc79a7",
    fifth="#f0e442",
    card="#1a1f26",
    warm="#f0e442",
    ceiling_text="#e69f00",
)
