"""One prompt, four answers: how many blocks, copies and computed tokens does each era need?

V1 makes four requests of it, which find the prompt's full blocks in the prefix cache; the rest of the prompt each
computes again. The paper's era computes the prompt once and forks; a block that is written to while it is shared is
copied first. Separate requests share nothing.
"""

from __future__ import annotations

import dataclasses
import json as json_module
import time
from typing import Any

from pagedlab.engine import LLM, BeamSearchParams, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.trace.sharing import sharing

PROMPT = (
    "The memory of a computer is divided into pages of equal size. A program sees one long row of addresses, but its "
    "pages "
    "may lie anywhere, and two programs may even use the same page, as long as"
)
# The paper, section 6.3 and figure 15: how many blocks sharing saved, in %.
PAPER = {
    "parallel sampling": {"Alpaca": (6.1, 9.8), "ShareGPT": (16.2, 30.5)},
    "beam search": {"Alpaca": (37.6, 55.2), "ShareGPT": (44.3, 66.3)},
}


def run(
    *,
    model: str = "smollm2",
    device: str | None = None,
    n: int = 4,
    max_tokens: int = 24,
    block_size: int = 16,
    prompt: str = PROMPT,
    json: bool = False,
) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object)."""
    if n < 2:
        raise PagedlabError(f"n is {n}; with fewer than 2 answers there is nothing to share.")
    started = time.perf_counter()
    base = LLM(model, device=device, num_gpu_blocks_override=2)
    result = {
        "benchmark": "sharing",
        "model": base.executor.model_config.name,
        "device": base.device_name,
        "n": n,
        "max_tokens": max_tokens,
        "block_size": block_size,
        "prompt_tokens": len(base.tokenizer.encode(prompt)),
        "rows": compare_eras(base, prompt, n=n, max_tokens=max_tokens, block_size=block_size),
        "paper_percent_saved": PAPER,
    }
    result["seconds"] = round(time.perf_counter() - started, 1)
    print(json_module.dumps(result) if json else _table(result))
    return result


def compare_eras(
    llm: LLM,
    prompt: str | list[int],
    *,
    n: int = 4,
    max_tokens: int = 24,
    block_size: int = 16,
    seed: int = 0,
    temperature: float = 1.0,
) -> dict[str, dict[str, Any]]:
    """The same prompt and the same seeds, ``n`` answers, on the weights of ``llm``: one row for each way to do it.

    Columns: see :class:`pagedlab.trace.sharing.Sharing`; besides, ``prompt_tokens_recomputed`` (computed once more
    than once) and ``token_ids``, the answers.
    """
    tokens = llm.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
    # Room for all of them apart, and for what the paper's era wants to see free besides.
    num_blocks = 2 + 2 * n + n * -(-(len(tokens) + max_tokens) // block_size)
    sampling = SamplingParams(n=n, temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=True)
    beams = BeamSearchParams(beam_width=n, max_tokens=max_tokens, ignore_eos=True)
    ways = {
        f"{n} separate requests": ({"era": "v1", "enable_prefix_caching": False}, sampling),
        f"V1, n = {n}": ({"era": "v1"}, sampling),
        f"paper, n = {n}": ({"era": "paper"}, sampling),
        f"paper, {n} beams": ({"era": "paper"}, beams),
    }
    rows = {}
    for name, (knobs, params) in ways.items():
        engine = LLM(llm, record=True, num_gpu_blocks_override=num_blocks, block_size=block_size, **knobs)
        output = engine.generate(tokens, params)[0]
        figures = sharing(engine.trace)
        rows[name] = dataclasses.asdict(figures) | {
            "prompt_tokens_recomputed": figures.prompt_tokens_computed - len(tokens),
            "kib": figures.blocks * engine.executor.kv_pool.bytes_per_block / 1024,
            "token_ids": [answer.token_ids for answer in output.outputs],
        }
    return rows


def _table(r: dict[str, Any]) -> str:
    lines = [
        f"One prompt of {r['prompt_tokens']} tokens, {r['n']} answers of {r['max_tokens']}: {r['model']} on "
        f"{r['device']}, blocks of "
        f"{r['block_size']}. Took {r['seconds']} s.",
        f"{'':<22}{'blocks at most':>15}{'without sharing':>17}{'saved, mean':>13}{'KiB':>9}{'copies':>8}"
        f"{'prompt tokens computed':>24}{'again':>7}",
    ]
    for name, row in r["rows"].items():
        lines.append(
            f"{name:<22}{row['blocks']:>15}{row['blocks_without_sharing']:>17}{row['saved']:>13.1%}{row['kib']:>9,.0f}"
            f"{row['copies']:>8}{row['prompt_tokens_computed']:>24}{row['prompt_tokens_recomputed']:>7}"
        )
    separate, v1, paper, _ = r["rows"].values()
    same = separate["token_ids"] == v1["token_ids"] == paper["token_ids"]
    lines.append(
        f"The sampled answers are {'the same, token for token' if same else 'NOT THE SAME'}, in the first three rows."
    )
    for what, ranges in PAPER.items():
        ranges_text = ", ".join(f"{low} to {high} % on {name}" for name, (low, high) in ranges.items())
        lines.append(f"The paper saved by sharing, in {what}: {ranges_text}.")
    return "\n".join(lines)
