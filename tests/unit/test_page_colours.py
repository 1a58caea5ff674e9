"""The page's colours can be told from each other and from the ground, whatever colours the reader sees.

Colour vision is simulated as by Machado, Oliveira and Fernandes (2009) at full severity; distances are CIE 1976's,
of which 2.3 is just noticeable.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import ROOT

VISIONS = {
    "all colours": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "no blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
LIGHT, DARK = re.findall(
    r"^:root[^{]*\{(.*?)\}", (ROOT / "align/view/offline/page.css").read_text("utf-8"), re.M | re.S
)


def linear(theme: str, name: str) -> NDArray[np.float64]:
    """A colour's red, green and blue, as amounts of light."""
    (code,) = re.findall(rf"--{name}: #([0-9a-f]{{6}});", theme)
    parts = np.array([int(code[n : n + 2], 16) / 255 for n in (0, 2, 4)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: NDArray[np.float64]) -> NDArray[np.float64]:
    relative = XYZ @ light.clip(0, 1) / XYZ.sum(1)
    x, y, z = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_found_wrong_and_missing_differ(theme: str, vision: str) -> None:
    seen = [lab(VISIONS[vision] @ linear(theme, name)) for name in ("found", "wrong", "missing")]
    assert min(float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2)) > 20


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "soft", "found", "wrong", "missing"])
def test_contrast_is_enough_for_text(theme: str, name: str) -> None:
    """By WCAG 2, level AA."""
    dark, light = sorted(float(XYZ[1] @ linear(theme, which)) for which in (name, "surface"))
    assert (light + 0.05) / (dark + 0.05) >= 4.5
