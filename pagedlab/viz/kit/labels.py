"""What things are called: names and colours of requests, tokens' text, numbers and lists in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from pagedlab.viz.kit.style import NUM_HUES

ISOLATED, ISOLATED_END = "\u2068\u2069"  # around words of another writing direction
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def names(request_ids: Iterable[str]) -> dict[str, str]:
    """A short name for each request, in order of arrival: its own id where that fits on a block (4 characters), else a
    free letter.
    """
    request_ids = list(request_ids)
    taken = {r for r in request_ids if len(r) <= 4}
    letters = (name for name in _letters() if name not in taken)
    return {r: printable(r) if r in taken else next(letters) for r in request_ids}


def hues(request_ids: Iterable[str]) -> dict[str, int]:
    """A colour number for each request. A, B, C … have their own, in every lab and whenever they arrive; other names
    take theirs from the other end, in order of arrival. Beyond eight colours repeat; the letters do not."""
    own = {chr(ord("A") + i): i for i in range(NUM_HUES)}
    ids = list(request_ids)
    others = [r for r in ids if r not in own]
    return {r: own[r] if r in own else (NUM_HUES - 1 - others.index(r)) % NUM_HUES for r in ids}


def family_hues(requests: Mapping[str, Any]) -> dict[str, int]:
    """A colour number for each request of a ``MemoryState``: those that forked from one prompt have one hue."""
    root = {r: (request.root or r).removesuffix("/0") for r, request in requests.items()}  # A/0 is prompt A's first
    known = hues(dict.fromkeys(root.values()))
    return {r: known[root[r]] for r in requests}


def _letters() -> Iterable[str]:
    for number in range(1, 10_000):
        name = ""
        while number:
            number, letter = divmod(number - 1, 26)
            name = chr(ord("A") + letter) + name
        yield name


def printable(text: str) -> str:
    """The text with every character that cannot be shown, or that XML forbids, replaced by one that can."""
    return "".join(_visible(c) for c in text)


def _visible(c: str) -> str:
    code = ord(c)
    if code < 0x20:
        return chr(0x2400 + code)
    category = unicodedata.category(c)
    # Marks that turn the writing direction (Cf) would reach beyond their own token.
    return "\ufffd" if category in ("Cc", "Cs", "Cn", "Cf") and c != "\u200d" else c


def token(text: str) -> str:
    """A token's own text as it stands in its slot: without the space in front, unless it is nothing but spaces."""
    shown = printable(text.replace("\\n", "↵").replace("\n", "↵").replace("\t", "⇥"))
    return shown.strip(" ") or "␣" * max(1, len(shown))


def quoted(text: str) -> str:
    """The token in quotation marks; in other ones where it is such a mark itself. One that is written from right to
    left turns nothing but itself around."""
    shown = token(text)
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in shown):
        shown = f"{ISOLATED}{shown}{ISOLATED_END}"
    return f"‹{shown}›" if any(c in "“”\"'" for c in shown) else f"“{shown}”"


def crowd(owners: Iterable[str]) -> list[str]:
    """Who holds a block, in fewer and fewer letters: all of them, "A/0–3" where they are a family, the first and how
    many more, how many."""
    owners = list(owners)
    if len(owners) == 1:
        return owners
    ways = [" ".join(owners)]
    parts = [name.rpartition("/") for name in owners]
    if len({root for root, _, _ in parts}) == 1 and parts[0][0] and all(k.isdecimal() for *_, k in parts):
        numbers = sorted(int(k) for *_, k in parts)
        root, first, last = parts[0][0], numbers[0], numbers[-1]
        if last - first == len(numbers) - 1:
            ways.append(f"{root}/{first}–{last}")
    return [*ways, f"{owners[0]} +{len(owners) - 1}", f"×{len(owners)}"]


def ordinal(n: int) -> str:
    """1 → 1st, 2 → 2nd, 11 → 11th."""
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def number(n: int) -> str:
    """Small numbers in words."""
    return _NUMBERS[n] if 0 <= n < len(_NUMBERS) else f"{n:,}"


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(items: Iterable[str], most: int = 6) -> str:
    """ "a", "a and b", "a, b and c", "a, b, c … (9 in all)"."""
    items = list(items)
    if len(items) > most:
        return f"{', '.join(items[: most - 1])} … ({len(items)} in all)"
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""
