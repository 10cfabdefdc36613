"""Who runs in this step, in the paper's era? Prompts, or else one token for everybody."""

from __future__ import annotations

import warnings
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pagedlab.engine.request import Request
from pagedlab.engine.scheduler import SchedulerOutput
from pagedlab.engine.sequence_group import SequenceGroup


@dataclass
class PaperSchedulerOutput(SchedulerOutput):
    """One step's decision, and the moves of blocks that have to be made before the model runs, in this order:
    ``blocks_to_swap_out`` [(block, CPU block)], ``blocks_to_swap_in`` [(CPU block, block)], ``blocks_to_copy``
    [(source, destination)]. ``retargeted``: for each sequence that copied, (logical block, the new one)."""

    blocks_to_swap_out: list[tuple[int, int]] = field(default_factory=list)
    blocks_to_swap_in: list[tuple[int, int]] = field(default_factory=list)
    blocks_to_copy: list[tuple[int, int]] = field(default_factory=list)
    retargeted: dict[str, tuple[int, int]] = field(default_factory=dict)


class PaperScheduler:
    """First come, first served, over groups of sequences that share blocks. A group runs, makes room and comes back as
    one.

    A step is either for prompts (whole ones: nothing is chunked yet) or for decoding, one token for each running
    sequence. Where the free blocks do not suffice, the group admitted last makes room, by ``preemption``: its blocks
    are given back and its tokens computed again later ("recompute"), or carried to the CPU pool and back ("swap").
    While somebody is swapped out nobody new is admitted. Where the CPU pool is full, the victim is recomputed, with a
    warning.

    Source: vLLM v0.2.0 ``core/scheduler.py``. Four things differ: the order is that of admission instead of arrival;
    "swap" is a knob (there, requests that may have several sequences are swapped and all others recomputed); a group
    with several sequences can be recomputed too; and where the CPU pool is full, v0.2.0 raises RuntimeError, which ends
    the engine.
    """

    def __init__(
        self,
        block_manager: Any,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        preemption: str = "recompute",
    ) -> None:
        self.block_manager = block_manager
        self.max_num_seqs = min(
            max_num_seqs, max_num_batched_tokens
        )  # each running sequence needs a token of the budget
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.preemption = preemption
        self.waiting: deque[SequenceGroup] = deque()
        self.running: list[SequenceGroup] = []
        self.swapped: deque[SequenceGroup] = deque()

    def add_request(self, group: SequenceGroup) -> None:
        """Let the group wait behind all others."""
        self.waiting.append(group)

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting or self.running or self.swapped)

    def schedule(self) -> PaperSchedulerOutput:
        """Decide one step and allocate its blocks. May schedule nothing."""
        output = PaperSchedulerOutput()
        if not self.swapped:
            self._schedule_prompts(output)
        if not output.num_scheduled_tokens:
            self._schedule_running(output)
            if not output.preempted:
                self._swap_in(output)
        return output

    # -------------------------------------------------------------------------------------------------------- prompts

    def _schedule_prompts(self, output: PaperSchedulerOutput) -> None:
        budget = self.max_num_batched_tokens
        while self.waiting:
            group = self.waiting[0]
            sequences = group.get_seqs()
            num_seqs = sum(other.width for other in self.running)
            # The first always gets in: the engine refuses what could exceed the budget by itself.
            fits = not output.admitted or sum(s.num_tokens for s in sequences) <= budget
            if not fits or num_seqs + group.width > self.max_num_seqs or not self.block_manager.can_allocate(group):
                break  # nobody overtakes the first in the queue
            self.block_manager.allocate(group)
            self.waiting.popleft()
            self.running.append(group)
            tables: list[list[int]] = []
            for sequence in sequences:
                table = self.block_manager.get_block_table(sequence)
                # After a recomputation, blocks may be shared with a sibling, which computes them in this same step.
                shared = max((_num_common(table, other) for other in tables), default=0)
                tables.append(table)
                (output.resumed if sequence.status == "preempted" else output.new).append(sequence)
                sequence.status = "running"
                sequence.num_computed_tokens = shared * self.block_manager.block_size
                num_tokens = sequence.num_tokens - sequence.num_computed_tokens
                output.num_scheduled_tokens[sequence.request_id] = num_tokens
                output.new_block_ids[sequence.request_id] = table
                budget -= num_tokens

    # --------------------------------------------------------------------------------------------------------- decode

    def _schedule_running(self, output: PaperSchedulerOutput) -> None:
        index = 0
        while index < len(self.running):
            group = self.running[index]
            while not self.block_manager.can_append_slot(group):
                victim = self.running.pop()
                self._preempt(victim, output)
                if victim is group:
                    return
            self._append_slots(group, output)
            index += 1

    def _append_slots(self, group: SequenceGroup, output: PaperSchedulerOutput) -> None:
        for sequence in group.get_seqs():
            before = len(self.block_manager.get_block_table(sequence))
            pair = self.block_manager.append_slot(sequence)
            table = self.block_manager.get_block_table(sequence)
            if pair is not None:
                output.blocks_to_copy.append(pair)
                output.retargeted[sequence.request_id] = (len(table) - 1, pair[1])
            output.num_scheduled_tokens[sequence.request_id] = 1
            output.new_block_ids[sequence.request_id] = table[before:]

    # --------------------------------------------------------------------------------------------------- making room

    def _preempt(self, victim: SequenceGroup, output: PaperSchedulerOutput) -> None:
        sequences = victim.get_seqs()
        swap = self.preemption == "swap" and self.block_manager.can_swap_out(victim)
        if swap:
            output.blocks_to_swap_out += self.block_manager.swap_out(victim).items()
            self.swapped.appendleft(victim)
        else:
            for sequence in sequences:
                self.block_manager.free(sequence)
                sequence.num_computed_tokens = 0
            self.waiting.appendleft(victim)
        for sequence in sequences:
            sequence.status = "swapped" if swap else "preempted"
            sequence.num_preemptions += 1
        output.preempted += sequences[::-1]  # each goes to the head of its queue: the last one first
        if self.preemption == "swap" and not swap:
            reason = f"the CPU pool has only {self.block_manager.cpu_allocator.get_num_free_blocks()} free blocks"
            output.fallbacks |= {sequence.request_id: reason for sequence in sequences}
            warnings.warn(
                f"Request {victim.request_id} is recomputed instead of swapped: {reason}. More swap_space would help.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _swap_in(self, output: PaperSchedulerOutput) -> None:
        while self.swapped and self.block_manager.can_swap_in(self.swapped[0]):
            group = self.swapped.popleft()
            self.running.append(group)
            output.blocks_to_swap_in += self.block_manager.swap_in(group).items()
            for sequence in group.get_seqs():
                sequence.status = "running"
                output.resumed.append(sequence)
            self._append_slots(group, output)
            for sequence in group.get_seqs():  # new to the engine's tables, so all of it
                output.new_block_ids[sequence.request_id] = self.block_manager.get_block_table(sequence)
                output.retargeted.pop(sequence.request_id, None)

    # ------------------------------------------------------------------------------------------------------- the end

    def update_from_output(self, output: SchedulerOutput, sampled: dict[str, int], is_stop: Any) -> list[Request]:
        """Take in what the model did: ``sampled`` tokens by request id, those of new forks among them. A sequence that
        was scheduled and got none is a beam that died.

        ``is_stop(request) -> bool`` is asked after a sequence got its token. Returns the sequences that finished; their
        blocks are free again.
        """
        finished = []
        for group in self.running:
            for sequence in group.get_seqs():
                sequence.num_computed_tokens += output.num_scheduled_tokens.get(sequence.request_id, 0)
                if sequence.request_id in sampled:
                    sequence.append_output_token(sampled[sequence.request_id])
                    if is_stop(sequence):
                        sequence.finish_reason = "stop"
                    elif (
                        sequence.num_tokens - sequence.num_prompt_tokens >= sequence.sampling_params.max_tokens
                        or sequence.num_tokens >= self.max_model_len
                    ):
                        sequence.finish_reason = "length"
                elif sequence.request_id in output.num_scheduled_tokens:
                    sequence.finish_reason = "dropped"
                if sequence.finish_reason is not None:
                    self.block_manager.free(sequence)
                    sequence.status = "finished"
                    finished.append(sequence)
        self.running = [group for group in self.running if not group.finished]
        return finished

    def abort(self, request_id: str) -> Request | None:
        """Take a sequence out, wherever it is, and free its blocks. None where it is not here."""
        for queue in (self.running, self.swapped, self.waiting):
            for group in queue:
                for sequence in group.get_seqs():
                    if sequence.request_id == request_id:
                        if queue is not self.waiting:  # those that wait hold no blocks
                            self.block_manager.free(sequence)
                        sequence.status, sequence.finish_reason = "finished", "abort"
                        if group.finished:
                            queue.remove(group)
                        return sequence
        return None


def _num_common(table: list[int], other: list[int]) -> int:
    """How many leading entries are the same."""
    count = 0
    while count < min(len(table), len(other)) and table[count] == other[count]:
        count += 1
    return count
