"""The form in which a watched server tells: what ``publish.py`` sends and ``pagedlab.attach`` reads.

A message has three frames: topic, sequence number (8 bytes, big-endian), payload (MessagePack, an array). Of the topic
``pagedlab.state`` the payload is ``[header, sources, texts, note]``: the trace's header, where each method is written,
the texts of tokens, and the note that says how everything stands (``Hooks.found``) after the message of that number. Of
the topic ``pagedlab.notes`` it is ``[texts, notes]``: the texts of tokens that were not told before, and what happened.
"""

from __future__ import annotations

from typing import Any

import msgspec

STATE, NOTES = b"pagedlab.state", b"pagedlab.notes"
Frames = tuple[bytes, bytes, bytes]  # topic, sequence number, payload

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def encode(topic: bytes, sequence: int, *payload: Any) -> Frames:
    return topic, sequence.to_bytes(8, "big"), _encoder.encode(payload)


def decode(frames: list[bytes] | Frames) -> tuple[bytes, int, list[Any]]:
    """Topic, sequence number and payload of a message. ValueError where it is none of ours."""
    if len(frames) != 3 or frames[0] not in (STATE, NOTES) or len(frames[1]) != 8:
        raise ValueError("not a message of a watched server")
    payload = _decoder.decode(frames[2])
    if not isinstance(payload, list) or len(payload) != (4 if frames[0] == STATE else 2):
        raise ValueError(f"a payload that is no array of the {frames[0].decode()} kind")
    return frames[0], int.from_bytes(frames[1], "big"), payload
