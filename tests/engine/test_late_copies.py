"""A GPU copies from the host's memory, and computes, later than it is told to. Here a queue does so, on a CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import pytest
import torch

from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.executor import ScheduledRequest
from pagedlab.executor.buffers import GPUCopies, Tables
from pagedlab.executor.runner import DrawnTokens, ModelRunner
from pagedlab.kv.block_table import BlockTable


class Stream:
    """Work in its order, done when somebody waits for it."""

    def __init__(self) -> None:
        self.queue: deque[Callable[[], object]] = deque()
        self.done = self.wanted = 0

    def later(self, work: Callable[[], object]) -> int:
        """Put ``work`` at the end. Returns a mark to wait for."""
        self.queue.append(work)
        self.wanted += 1
        return self.wanted

    def wait(self, mark: int | None = None) -> None:
        while self.queue and (mark is None or self.done < mark):
            self.queue.popleft()()
            self.done += 1


class LateCopies:
    """The protocol of ``GPUCopies`` over a ``Stream``."""

    def __init__(self, stream: Stream, waits: bool) -> None:
        self.stream, self.waits, self.last = stream, waits, 0

    def __enter__(self) -> None:
        if self.waits:
            self.stream.wait(self.last)

    def __exit__(self, *_: object) -> None:
        self.last = self.stream.wanted

    def host(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        self.stream.later(lambda: target.copy_(source))


class LateRunner(ModelRunner):
    """Runs the model when its turn in the stream comes, and waits for it where the engine goes on to sample."""

    def run(self, batch: list[ScheduledRequest], last: DrawnTokens) -> torch.Tensor:
        logits = super().run(batch, last)
        if any(part.end == len(part.token_ids) for part in batch):
            self._copies.stream.wait()
        return logits

    def _compute(self, *inputs: torch.Tensor) -> torch.Tensor:
        logits = torch.full((len(inputs[-1]) - 1, self.model.config.vocab_size), float("nan"))

        def work() -> None:
            with torch.inference_mode():
                logits.copy_(super(LateRunner, self)._compute(*inputs))

        self._copies.stream.later(work)
        return logits


def late(tiny: LLM, copies: LateCopies | None) -> LLM:
    limits = {"max_num_seqs": 8, "max_num_batched_tokens": 8}
    llm = LLM(tiny, block_size=64, num_gpu_blocks_override=8, enable_prefix_caching=False, **limits)
    if copies is not None:
        limits["max_model_len"] = llm.max_model_len
        executor = llm.executor
        executor.runner = LateRunner(executor.model, executor.kv_pool, copies=copies, **limits)
    return llm


def answers(llm: LLM) -> list[list[int]]:
    """To two prompts of five chunks each: steps without sampling in a row, then some that sample."""
    prompts = [[(7 * i + j) % 250 for i in range(40)] for j in range(2)]
    return [o.outputs[0].token_ids for o in llm.generate(prompts, SamplingParams(max_tokens=6, ignore_eos=True))]


def test_host_buffers_are_filled_again_only_when_the_copies_from_them_are_over(tiny):
    assert answers(late(tiny, LateCopies(Stream(), waits=True))) == answers(late(tiny, None))


def test_without_waiting_for_the_copies_the_same_steps_give_other_tokens(tiny):
    """What the test above would not see otherwise: that waiting matters here."""
    assert answers(late(tiny, LateCopies(Stream(), waits=False))) != answers(late(tiny, None))


def test_an_error_while_the_buffers_are_filled_leaves_the_copies_that_were_started_to_be_awaited(tiny):
    copies = LateCopies(Stream(), waits=True)
    llm = late(tiny, copies)
    first = llm.executor.runner._token_ids

    def send(count: int) -> torch.Tensor:
        raise KeyboardInterrupt

    llm.executor.runner._positions.send = send
    llm.add_request([1, 2, 3])
    with pytest.raises(KeyboardInterrupt):
        llm.step()
    assert first._device[0] == 0, "the first copy was started and is not over"
    with copies:
        assert first._device[0] == 1


def test_the_copies_of_a_gpu_are_awaited_and_marked_as_over_on_the_devices_own_stream(monkeypatch):
    """The real class, in the order in which it uses the event; that the event holds is CUDA's own promise."""
    calls: list[object] = []

    class Event:
        def synchronize(self):
            calls.append("wait")

        def record(self, stream):
            calls.append(("over", stream))

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    with pytest.raises(RuntimeError), GPUCopies(torch.device("cuda:1")):
        calls.append("fill")
        raise RuntimeError
    assert calls == ["wait", "fill", ("over", "stream of cuda:1")]


def test_on_a_cpu_nothing_is_copied_and_nobody_waits(tiny):
    runner = LLM(tiny, block_size=4, num_gpu_blocks_override=8).executor.runner
    sent = runner._token_ids.send(3)
    assert runner._copies is None and sent.data_ptr() == runner._token_ids.host.ctypes.data


@pytest.mark.parametrize("wrong", [-2, 8, 10_000])
def test_tables_are_looked_at_on_the_host_before_they_are_sent_where_nobody_looks_later(tiny, wrong):
    """-2 is no block, and neither is the ninth of eight."""

    class WrongTable(BlockTable):
        def append(self, block_ids):
            super().append([wrong for _ in block_ids])

    class RightSlots(WrongTable):
        def slot_mapping(self, start, end):
            return list(range(start, end))

    stream = Stream()
    llm = late(tiny, LateCopies(stream, waits=True))
    for table, sentence in ((WrongTable, "slots go from 0 to 511"), (RightSlots, "ids go from 0 to 7")):
        llm.parts["block_table"] = table
        llm.add_request([1, 2, 3])
        with pytest.raises(PagedlabError, match=sentence):
            llm.step()
        assert not stream.queue, "nothing was sent"
        llm.abort_request(next(iter(llm.groups)))


def test_tables_are_written_only_where_new_blocks_came_and_are_always_what_was_asked():
    rng, tables = Random(0), Tables((3, 40), torch.int32, torch.device("cpu"), None)
    written = []
    rows = [[] for _ in range(3)]
    for _ in range(500):
        row = rng.randrange(3)
        ids = list(rows[row])
        match rng.choice(("same", "longer", "longer", "shorter", "another", "edited")):
            case "longer" if len(ids) < 38:
                ids += [rng.randrange(1000, 2000) for _ in range(rng.randint(1, 2))]
            case "shorter":
                ids = ids[: rng.randint(0, len(ids))]
            case "another":
                ids = [rng.randrange(1000, 2000) for _ in range(rng.randint(0, 40))]
            case "edited" if ids:
                ids[rng.randrange(len(ids))] = rng.randrange(1000, 2000)
        before = tables.host.copy()
        tables.fill_row(row, ids)
        rows[row] = ids
        assert all(tables.send(3)[r, : len(kept)].tolist() == kept for r, kept in enumerate(rows))
        written.append(int((tables.host != before).sum()))
    given = list(range(5000, 5030))
    tables.fill_row(0, given)
    tables.host[0, :30] = 7  # had it been written again, this would be gone
    tables.fill_row(0, [*given, 6000])
    assert tables.host[0, :31].tolist() == [7] * 30 + [6000]
    given[3] = 1  # the list itself is edited: by hand, or by copy-on-write
    tables.fill_row(0, given)
    assert tables.host[0, :30].tolist() == given
