"""Records what several ranks do in a step, one of them with a fault, for exercise 16: ``python tools/record_ranks.py``.

The engine is the package's, started by torchrun. Nothing is simulated: for an episode (an engine of its own, with an
empty pool) a rank really goes wrong, and every rank writes down what it computed, what it went on with, and where it
wrote. The faults:

    deaf    after one all-reduce the rank goes on with its own part, not with the sum
    silent  the rank hands zeros to one all-reduce, not what it computed
    table   the rank keeps tables of its own, and does not notice that a request which was preempted has a new one
    heads   the rank has the attention weights of another rank
"""

from __future__ import annotations

import atexit
import dataclasses
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

GRADING = Path(__file__).resolve().parent.parent / "pagedlab" / "grading"
RECORDED = GRADING / "exercises" / "ex16" / "recorded.json.gz"  # with what is right
THREE = GRADING / "tasks" / "ex16" / "three.json.gz"  # what the notebook shows
SHOWN = {"first": ("silent", 1), "second": ("table", 2), "third": ("heads", 0)}  # of SmolLM2's
NUMBERS = 4  # of each vector: the first ones of the step's last token
RUNS = (("smollm2", 3), ("tiny-random", 2), ("tiny-random", 4))  # of four ranks two have the same KV head
PROMPTS = (
    "A lighthouse keeper counts", "Bread needs flour, water", "Seven mountains stand around", "When the power fails",
)  # fmt: skip
KNOBS = {"block_size": 4, "num_gpu_blocks_override": 12, "enable_prefix_caching": False, "max_num_batched_tokens": 16}
BYTE_KNOBS = KNOBS | {"num_gpu_blocks_override": 40, "max_num_batched_tokens": 64}  # a token is a letter there


def episodes(size: int) -> list[dict[str, Any]]:
    """None sound, then each fault in each rank. ``at``: which all-reduce of which step."""
    found: list[dict[str, Any]] = [{"fault": None, "rank": 0}]
    for rank in range(size):
        found += [{"fault": "deaf", "rank": rank, "step": 2 + rank, "at": (3 + 2 * rank) % 7}]
        found += [{"fault": "silent", "rank": rank, "step": 3 + rank, "at": 2 + rank}]
        found += [{"fault": "heads", "rank": rank}]
        found += [{"fault": "table", "rank": rank, "more_blocks": more} for more in (-1, 0, 1, 3)]
    return found


class Diary:
    """What this rank does, episode by episode and step by step; and its fault, where the episode gives it one."""

    def __init__(self, name: str, rank: int, size: int) -> None:
        self.name, self.rank, self.size = name, rank, size
        self.plan, self.all = episodes(size), []
        self.tables: dict[str, list[int]] = {}

    @property
    def fault(self) -> str | None:
        now = self.plan[len(self.all) - 1]
        return now["fault"] if now["rank"] == self.rank else None

    @property
    def step(self) -> dict[str, Any]:
        return self.all[-1][-1]

    def is_now(self, fault: str) -> bool:
        now = self.plan[len(self.all) - 1]
        here = (len(self.all[-1]), len(self.step["parts"]))
        return self.fault == fault and (now["step"], now["at"]) == here

    def watch(self) -> None:
        """Put this diary around the methods that it writes of."""
        from pagedlab.executor.group import Group
        from pagedlab.executor.runner import ModelRunner
        from pagedlab.executor.torch_executor import TorchExecutor
        from pagedlab.model.llama import LlamaLayer

        all_reduce, send, heads = Group.all_reduce, ModelRunner._send, LlamaLayer.heads
        initialize = TorchExecutor.initialize

        def noted_initialize(executor: Any, *args: Any) -> None:
            initialize(executor, *args)
            self.all.append([])
            self.tables.clear()
            self._give_heads(executor.model)

        def noted_send(runner: Any, batch: list[Any], *args: Any, **named: Any) -> Any:
            requests = [
                {"request": one.request_id, "start": one.start, "end": one.end, "table": list(one.tables[0].block_ids)}
                for one in batch
            ]
            first = (batch[0].token_ids[batch[0].start : batch[0].start + 1], batch[0].start)
            self.all[-1].append({"requests": requests, "first": first, "parts": [], "sums": [], "keys": []})
            if self.fault == "table":
                batch = [dataclasses.replace(one, table=self._kept(one, runner.kv_pool.block_size)) for one in batch]
            sent = send(runner, batch, *args, **named)
            self.step["wrote"] = sent[2][0].tolist()
            return sent

        def noted_heads(layer: Any, *args: Any) -> Any:
            result = heads(layer, *args)
            if layer.index == 0 and not self.step["keys"]:
                first = layer.config.num_query_heads
                keys = result[0, first : first + layer.config.num_kv_heads, :NUMBERS]
                self.step["keys"] = keys.tolist()
            return result

        def noted_all_reduce(group: Any, part: Any) -> Any:
            if not self.all or not self.all[-1]:
                return all_reduce(group, part)
            own = part.clone()
            result = all_reduce(group, part.zero_() if self.is_now("silent") else part)
            if self.is_now("deaf"):
                result = own
            self.step["parts"].append(own[-1, :NUMBERS].tolist())
            self.step["sums"].append(result[-1, :NUMBERS].tolist())
            return result

        Group.all_reduce, ModelRunner._send = noted_all_reduce, noted_send
        LlamaLayer.heads, TorchExecutor.initialize = noted_heads, noted_initialize

    def _kept(self, part: Any, block_size: int) -> KeptTable:
        known, new = self.tables.setdefault(part.request_id, []), list(part.tables[0].block_ids)
        known += new[len(known) :]
        return KeptTable(known[: len(new)], block_size)

    def _give_heads(self, model: Any) -> None:
        """Another rank's attention weights, or (in the next episode) its own again."""
        from pagedlab.model.split import Alone, Split
        from pagedlab.model.weights import load_model

        away = 1 if self.size == 3 else self.size // 2  # a rank that has another KV head
        rank = (self.rank + away) % self.size if self.fault == "heads" else self.rank
        group = Alone()
        group.split = Split(rank, self.size)
        source, _ = load_model(self.name, group=group)
        for mine, theirs in zip(model.layers, source.layers, strict=True):
            mine.qkv.data.copy_(theirs.qkv)
            mine.output.data.copy_(theirs.output)


@dataclasses.dataclass
class KeptTable:
    """A block table that a rank has made itself."""

    block_ids: list[int]
    block_size: int

    def slot_mapping(self, start: int, end: int) -> list[int]:
        size = self.block_size
        return [self.block_ids[i // size] * size + i % size for i in range(start, end)]

    def __len__(self) -> int:
        return len(self.block_ids)


def be_a_rank(name: str, folder: Path) -> None:
    """One process of torchrun's."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    diary = Diary(name, rank, size)
    diary.watch()
    atexit.register(lambda: (folder / f"{rank}.json").write_text(json.dumps(diary.all)))
    from pagedlab import LLM, SamplingParams

    knobs = dict(KNOBS if name == "smollm2" else BYTE_KNOBS)
    llm, blocks = None, knobs["num_gpu_blocks_override"]
    for episode in diary.plan:
        knobs["num_gpu_blocks_override"] = blocks + episode.get("more_blocks", 0)  # who is preempted, and what it gets
        llm = LLM(llm or name, device="cpu", tensor_parallel_size=size, **knobs)
        for number, prompt in enumerate(PROMPTS):
            params = SamplingParams(max_tokens=9 + number if name == "smollm2" else 24, ignore_eos=True)
            llm.add_request(prompt, params, request_id="ABCD"[number])
        while llm.has_unfinished_requests():
            llm.step()


def record(name: str, size: int) -> list[dict[str, Any]]:
    """Of each episode: one step in which its fault shows; of the sound one, several."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size), __file__, name, folder]
        subprocess.run(command, check=True)
        ranks = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]
    found, model = [], whole_model(name)
    for number, episode in enumerate(episodes(size)):
        steps = [ranks[rank][number] for rank in range(size)]
        if episode["fault"] in ("deaf", "silent"):
            chosen = [episode["step"] - 1]
        elif episode["fault"] == "table":
            right = steps[(episode["rank"] + 1) % size]
            chosen = [i for i, one in enumerate(steps[episode["rank"]]) if one["wrote"] != right[i]["wrote"]][:2]
        elif episode["fault"] == "heads":
            chosen = [0, 3]
        else:
            chosen = list(range(0, len(steps[0]), 4))
        found += [_recorded(model, episode, step, [rank[step] for rank in steps]) for step in chosen]
    return found


def whole_model(name: str) -> Any:
    from pagedlab.model.weights import load_model

    return load_model(name)[0]


def first_keys(model: Any, token: list[int], position: int) -> list[list[float]]:
    """K of this token in layer 0, of every KV head, as one process has it."""
    import torch

    with torch.inference_mode():
        at = torch.tensor([position])
        cos, sin = model.cos[at], model.sin[at]
        turn = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        heads = model.layers[0].heads(model.embedding[torch.tensor(token)], *turn)[0]
    query, kv = model.config.num_query_heads, model.config.num_kv_heads
    return heads[query : query + kv, :NUMBERS].tolist()


def _recorded(model: Any, episode: dict, step: int, ranks: list[dict]) -> dict[str, Any]:
    heads = first_keys(model, *ranks[0]["first"])
    requests = [{key: one[key] for key in ("start", "end", "table")} for one in ranks[0]["requests"]]
    kept = [{key: rank[key] for key in ("wrote", "keys", "parts", "sums")} for rank in ranks]
    return {
        "model": model.config.name, "block_size": KNOBS["block_size"], "step": step + 1, "fault": episode["fault"],
        "rank": None if episode["fault"] is None else episode["rank"], "at": episode.get("at"),
        "requests": requests, "heads": heads, "ranks": kept,
    }  # fmt: skip


def rounded(value: Any) -> Any:
    """Six digits of each number: enough to tell a fault from the order of additions."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return {key: rounded(item) for key, item in value.items()} if isinstance(value, dict) else value


def write(path: Path, recordings: Any) -> None:
    import torch

    whole = {"made_by": "tools/record_ranks.py", "torch": torch.__version__, "recordings": rounded(recordings)}
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:  # the same bytes each time
        packed.write(json.dumps(whole, separators=(",", ":")).encode())
    print(f"{path.name}: {len(recordings)} recordings, {path.stat().st_size:,} bytes")


def shown(recording: dict[str, Any]) -> dict[str, Any]:
    """Without what is to be found."""
    step = {key: recording[key] for key in ("block_size", "requests")}
    return {"step": step, "heads": recording["heads"], "ranks": recording["ranks"]}


def main() -> None:
    recordings = [one for run in RUNS for one in record(*run)]
    write(RECORDED, recordings)
    first = {}
    for one in reversed(recordings):
        if len(one["ranks"]) == 3:
            first[one["fault"], one["rank"]] = one
    write(THREE, {name: shown(first[which]) for name, which in SHOWN.items()})


if __name__ == "__main__":
    if "RANK" in os.environ:
        be_a_rank(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
