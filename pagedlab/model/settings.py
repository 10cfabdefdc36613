"""The values of a configuration, each checked when it is asked for: ``null`` is as good as missing, as in transformers,
and PagedlabError names the file, what it says, and what it may say.
"""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError, is_real, is_whole

# Far beyond any model: a wrong number must not fill the memory before it meets the weights.
MOST, MOST_LAYERS = 1 << 24, 1 << 10
SMALL = 1e-30  # what fp32 can still hold, as it can 1 / SMALL


class Settings:
    """``where``: the file, in words."""

    def __init__(self, raw: dict, where: str) -> None:
        self.raw, self.where = raw, where

    def wrong(self, name: str, allowed: str) -> PagedlabError:
        if self.raw.get(name) is None:
            return PagedlabError(f"{self.where} lacks {name!r}: download the folder again")
        text = repr(self.raw[name])[:60]
        return PagedlabError(f"{self.where} has {text} as {name!r}, which must be {allowed}: download the folder again")

    def value(self, name: str, default: Any = None) -> Any:
        value = self.raw.get(name)
        return default if value is None else value

    def size(self, name: str, default: int | None = None, *, least: int = 1, most: int = MOST) -> int:
        value = self.value(name, default)
        if not is_whole(value) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.value(name, default)
        if not is_real(value) or not SMALL <= value <= 1 / SMALL:
            raise self.wrong(name, f"a number above 0, from {SMALL:g} to {1 / SMALL:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.value(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def names(self, name: str) -> list[str]:
        value = self.value(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(name, "a list of names")
        return value

    def part(self, name: str) -> Settings | None:
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Settings(value, self.where) if value else None

    def token(self, name: str) -> str | None:
        """A token's text, which may stand in an object."""
        value = self.value(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, bool) or value is None:  # add_bos_token and its like
            return None
        if not isinstance(value, str):
            raise self.wrong(name, "text")
        return value

    def ids(self, name: str) -> list[int] | None:
        """Token ids, one or a list."""
        value = self.value(name)
        ids = value if isinstance(value, list) or value is None else [value]
        if ids is not None and not all(is_whole(id_) and 0 <= id_ < MOST for id_ in ids):
            raise self.wrong(name, "a token id or a list of them")
        return ids
