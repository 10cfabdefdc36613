"""How the answers of exercise 17 are asked for."""

from __future__ import annotations

from typing import Any

import torch

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.ex17.library import Library, multiply
from pagedlab.grading.tasks.ex17.numbers import build, numbers


def flips(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["first_flips"], list(case["one"]), list(case["other"]))


def product(objects: dict[str, Any], case: dict) -> dict:
    """All rows at once; the same in parts of each of ``sizes``; and in another order."""
    given = build(case)
    x, weight = given["x"], given["weight"]
    answer: dict[str, Any] = {"calls": []}
    kept: list[torch.Tensor] = []

    def rows(part: torch.Tensor) -> torch.Tensor:
        library = Library()
        result = objects["product"](part, weight, library)
        answer["calls"].append([len(part), library.calls])
        return result

    def whole() -> list:
        kept.append(rows(x))
        return numbers(kept[0])

    def in_parts(size: int) -> list:
        return numbers(torch.cat([rows(part) for part in x.split(size)]))

    answer["whole"] = attempt(whole)
    answer["parts"] = [attempt(in_parts, size) for size in case["sizes"]]
    answer["mixed"] = attempt(lambda: numbers(rows(x[torch.tensor(case["order"])])))
    answer["later"] = attempt(lambda: numbers(kept[0]))
    before = build(case)
    answer["kept"] = torch.equal(x, before["x"]) and torch.equal(weight, before["weight"])
    return answer


def attention(objects: dict[str, Any], case: dict) -> dict:
    """All queries of a prompt at once; then in each of ``cuts``: lists of where a chunk ends."""
    given = build(case)
    query, key, value = (given[name] for name in ("query", "key", "value"))

    def chunk(start: int, end: int) -> torch.Tensor:
        return objects["attend"](query[start:end].clone(), key[:end].clone(), value[:end].clone(), multiply)

    def in_chunks(ends: list[int]) -> list:
        return numbers(torch.cat([chunk(start, end) for start, end in zip([0, *ends], ends, strict=False)]))

    answer: dict[str, Any] = {"whole": attempt(in_chunks, [len(query)])}
    answer["cuts"] = [attempt(in_chunks, ends) for ends in case["cuts"]]
    mine = [t.clone() for t in (query, key, value)]
    answer["ran"] = attempt(lambda: numbers(objects["attend"](*mine, multiply))[0])
    answer["kept"] = all(map(torch.equal, mine, (query, key, value)))
    return answer


PROBES = {"17.1": flips, "17.2": product, "17.3": attention}
