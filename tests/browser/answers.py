"""Asking the engine inside a page, and comparing its answers with those of Python."""

from __future__ import annotations

import math

ASK = """async ([path, bodies]) => {
  const { engine } = globalThis.throughtime;
  const found = [];
  for (const body of bodies) {
    try {
      found.push(body === null ? await engine.get(path) : await engine.post(path, body));
    } catch (error) {
      found.push({ problem: error.message });
    }
  }
  return found;
}"""


def ask_all(page, path, bodies):
    """What the page's engine answers to each body; `{"problem": sentence}` where it refuses."""
    return page.evaluate(ASK, [path, list(bodies)])


def ask(page, path, body=None):
    """What the page's engine answers to one body, or to a request without one."""
    return ask_all(page, path, [body])[0]


def differences(found, expected, tolerance=1e-3, absent=(), place="answer"):
    """Sentences that say where an answer differs from the expected one; none if they agree.

    Texts must be equal, and numbers equal up to `tolerance`, relative to those above 1. Fields named in
    `absent` may be missing or differ.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [name for name in {**expected, **found} if name not in absent]
        told = [f"{place} lacks {name!r}" for name in names if name not in found]
        told += [f"{place} has {name!r} too" for name in names if name not in expected]
        for name in names:
            if name in found and name in expected:
                told += differences(found[name], expected[name], tolerance, absent, f"{place}.{name}")
        return told
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(found) != len(expected):
            return [f"{place} has {len(found)} entries instead of {len(expected)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [
            told
            for index, (one, other) in pairs
            for told in differences(one, other, tolerance, absent, f"{place}[{index}]")
        ]
    numbers = [one for one in (found, expected) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == 2 and math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance):
        return []
    if found == expected or (len(numbers) == 2 and math.isnan(found) and math.isnan(expected)):
        return []
    return [f"{place} is {found!r} instead of {expected!r}"]
