"""The form in which vLLM v0.32.0 puts KV events on the wire.

A message has three frames: topic, sequence number (8 bytes, big-endian, counted from 0), payload. The payload is a
batch in MessagePack: an *array* ``[timestamp, events, data_parallel_rank]``, whose events are *maps* with a key
``type``. Keys that we do not know are skipped, as are those that are left out because they have their default.

In a file the same frames follow one another, each behind its length (4 bytes, big-endian). That form is ours: vLLM
has none.

Source: vLLM ``distributed/kv_events.py`` (facts only; the classes here hold what we read and write).
"""

from __future__ import annotations

from typing import Any, BinaryIO

import msgspec

from pagedlab.errors import PagedlabError

Frames = tuple[bytes, bytes, bytes]  # topic, sequence number, payload
MOST_BYTES = 1 << 28  # of a frame in a file; a length beyond this is no length


class BlockStored(msgspec.Struct, tag=True, omit_defaults=True):
    """Full blocks that were cached, one behind the other; ``parent_block_hash`` names the block before the first."""

    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]  # of all these blocks
    block_size: int
    lora_id: int | None
    medium: str | None  # "GPU", or where else the blocks lie
    lora_name: str | None
    extra_keys: list[Any] | None = None  # what goes into the hash besides tokens, for each block
    group_idx: int | None = None  # which group of layers; a model with full attention alone has one, 0
    kv_cache_spec_kind: str | None = None


class BlockRemoved(msgspec.Struct, tag=True, omit_defaults=True):
    """Hashes that were dropped, each as a rule because its block was handed out again."""

    block_hashes: list[bytes | int]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True):
    """Every hash was dropped."""


class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    """What one step of the server did to its cache."""

    ts: float  # seconds since 1970
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(EventBatch)


def encode(sequence: int, batch: EventBatch, topic: str = "") -> Frames:
    """The three frames of one message."""
    return topic.encode(), sequence.to_bytes(8, "big"), _encoder.encode(batch)


def decode(frames: list[bytes] | Frames, source: str) -> tuple[int, EventBatch]:
    """Sequence number and batch. Raises PagedlabError for anything that is not in this form, and names ``source``."""
    if len(frames) != 3 or len(frames[1]) != 8:
        raise PagedlabError(
            f"{source} sent no KV events: a message has {len(frames)} frames, where there should be a topic, 8 bytes "
            "of sequence number, and a payload."
        )
    try:
        batch = _decoder.decode(frames[2])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PagedlabError(
            f"{source} sent a message that is not in the form of vLLM v0.32.0's KV events: {error}."
        ) from None
    for event in batch.events:
        if isinstance(event, BlockStored) and (
            event.block_size < 1 or len(event.token_ids) != len(event.block_hashes) * event.block_size
        ):
            raise PagedlabError(
                f"{source} sent a BlockStored event with {len(event.token_ids)} tokens for {len(event.block_hashes)} "
                f"blocks of {event.block_size}."
            )
    return int.from_bytes(frames[1], "big"), batch


def write_frames(file: BinaryIO, frames: Frames) -> None:
    """Append one message to a file."""
    for frame in frames:
        file.write(len(frame).to_bytes(4, "big") + frame)


def read_frames(file: BinaryIO, source: str) -> Frames | None:
    """The next message of a file; None at its end. Raises PagedlabError where the file breaks off."""
    frames = []
    for _ in range(3):
        head = file.read(4)
        if not head and not frames:
            return None
        size = int.from_bytes(head, "big")
        frame = file.read(size) if len(head) == 4 and size <= MOST_BYTES else b""
        if len(head) < 4 or len(frame) < size:
            raise PagedlabError(f"{source} breaks off within a message, or is no file of KV events.")
        frames.append(frame)
    return tuple(frames)
