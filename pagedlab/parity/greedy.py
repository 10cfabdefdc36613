"""Greedy continuations by Hugging Face transformers, against our engine's: each prompt alone, then all of them in
one batch.

This is parity of another kind: not the manager's decisions but the model's tokens, which come out right only if every
block table, slot and mask was right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.parity.near_ties import TIE
from pagedlab.parity.report import Difference, need, need_tokens

THEM = "transformers"


def compare(path: Path, lines: list[dict[str, Any]], **where_it_runs: Any) -> Difference | None:
    """The first difference, or None. Loads the model; raises PagedlabError for a line that is no continuation.
    ``where_it_runs``: device, dtype and ranks of the engine; by default float32, in which the continuations were
    made."""
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        need(line, where, prompt_ids=list, output_ids=list, top2_gap=list)
        need_tokens(line["prompt_ids"], where)
        need_tokens(line["output_ids"], where)
        if len(line["top2_gap"]) != len(line["output_ids"]) or not all(type(gap) is float for gap in line["top2_gap"]):
            raise PagedlabError(
                f"{where}: top2_gap must give one number for each of the {len(line['output_ids'])} output_ids."
            )

    from pagedlab.engine import LLM, SamplingParams

    # Blocks for all of them at once.
    num_blocks = 1 + sum(-(-(len(line["prompt_ids"]) + len(line["output_ids"])) // 16) for line in lines)
    llm = LLM("smollm2", num_gpu_blocks_override=num_blocks, **{"dtype": "float32"} | where_it_runs)

    def continuations(of: list[dict[str, Any]]) -> list[list[int]]:
        params = [SamplingParams(max_tokens=len(line["output_ids"]), ignore_eos=True) for line in of]
        outputs = llm.generate([line["prompt_ids"] for line in of], params)
        return [output.outputs[0].token_ids for output in outputs]

    for number, line in enumerate(lines, start=1):
        found = first_difference_of_tokens(f"line {number}, alone", line, continuations([line])[0])
        if found:
            return found
    for number, (line, ours) in enumerate(zip(lines, continuations(lines), strict=True), start=1):
        found = first_difference_of_tokens(f"line {number}, batched with the others", line, ours)
        if found:
            return found
    return None


def first_difference_of_tokens(where: str, line: dict[str, Any], ours: list[int]) -> Difference | None:
    """The first token that is another where the gap decides; a tie that fell the other way ends the comparison."""
    expected = line["output_ids"]
    for i, token in enumerate(ours):
        if token != expected[i]:
            if line["top2_gap"][i] < TIE:
                return None
            return Difference(f"{where}, token {i + 1}", "output_ids", expected[i], token, them=THEM)
    if len(ours) != len(expected):
        return Difference(where, "number of output_ids", len(expected), len(ours), them=THEM)
    return None
