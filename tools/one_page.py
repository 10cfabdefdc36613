"""The picture of ``docs/one-page.md``, from a real run: ``python tools/one_page.py`` writes ``docs/one-page.svg``."""

from __future__ import annotations

import argparse
from pathlib import Path

from pagedlab import LLM, SamplingParams
from pagedlab.viz import memory_map
from pagedlab.viz.memory.lab import MemoryMap

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "one-page.svg"


def run() -> MemoryMap:
    """The memory map of a run of the real model: C is over, and A and B, which begin alike, run."""
    llm = LLM("smollm2", device="cpu", block_size=4, num_gpu_blocks_override=15, record=True)
    for name, prompt, answer in (
        ("C", "Bread needs flour, water, salt", 4),
        ("A", "The hotel by the sea is open from May", 12),
        ("B", "The hotel by the sea is open all day", 12),
    ):
        llm.add_request(prompt, SamplingParams(max_tokens=answer, ignore_eos=True), request_id=name)
        while name == "C" and llm.has_unfinished_requests():
            llm.step()
    for _ in range(3):
        llm.step()
    return memory_map(llm, select="B")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    lab = run()
    PICTURE.write_text(lab.svg(), encoding="utf-8")
    print(lab.text())
