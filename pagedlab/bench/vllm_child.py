"""The process that `bench engine --against vllm` keeps: one vLLM, asked for one round at a time.

The first line of standard input has the settings, every other one a round: ``{"prompts": [[token ids]], "new": tokens
for each}``. An answer is one line of JSON. The first says how long it took until the engine was ready, and with what;
each other has the new tokens of every prompt. Whatever vLLM itself prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pagedlab.bench.vllm_engine import engine
from pagedlab.errors import PagedlabError


def serve(lines: Any, answer: Any) -> None:
    """Until ``lines`` ends."""
    started = time.perf_counter()
    settings = json.loads(next(lines))
    try:
        llm = engine(Path(settings.pop("folder")), **settings)
    except PagedlabError as error:
        answer({"error": str(error)})
        return
    import torch
    import vllm

    config = llm.llm_engine.vllm_config
    answer(
        {
            "vllm": vllm.__version__,
            "torch": torch.__version__.split("+")[0],
            "threads": torch.get_num_threads(),
            "block_size": config.cache_config.block_size,
            "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
            "start_seconds": round(time.perf_counter() - started, 1),
        }
    )
    for line in lines:
        round_ = json.loads(line)
        params = vllm.SamplingParams(temperature=0, max_tokens=round_["new"], ignore_eos=True)
        prompts = [{"prompt_token_ids": tokens} for tokens in round_["prompts"]]
        outputs = llm.generate(prompts, params, use_tqdm=False)
        answer({"token_ids": [list(output.outputs[0].token_ids) for output in outputs]})


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for all that prints from here on
    serve(iter(sys.stdin), lambda what: print(json.dumps(what), file=out, flush=True))


if __name__ == "__main__":
    main()
