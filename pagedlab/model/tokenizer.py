"""Text to token ids and back, and conversations to the form that a chat model was trained on.

The work is done by the `tokenizers` library. Built here: a byte-level BPE from the lists that a GGUF file carries, and
the 256-byte vocabulary of `tiny-random`.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from pagedlab.errors import PagedlabError
from pagedlab.model.chat import ChatEncoder, ChatTemplate

BYTE_TOKEN = re.compile("<0x[0-9A-Fa-f]{2}>")  # SentencePiece's name for a byte that is no character
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Tokenizer:
    """A `tokenizers.Tokenizer` with what a decoding engine and its labs need.

    `eos_token_ids`: ids that end a generation. `chat_template`: Jinja source as in Hugging Face's
    tokenizer_config.json, or None. `special_tokens`: names for the template, such as {"bos_token": "<s>"}.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        eos_token_ids: Iterable[int],
        chat_template: str | None = None,
        special_tokens: dict[str, str] | None = None,
    ):
        backend.no_truncation()  # a file may carry those of its training: a prompt is never cut or padded in silence
        backend.no_padding()
        self._backend = backend
        self.eos_token_ids: set[int] = set(eos_token_ids)
        self.vocab_size: int = backend.get_vocab_size()
        self.chat_template = chat_template
        self.special_tokens = special_tokens or {}
        self._added = {id_: token.content for id_, token in backend.get_added_tokens_decoder().items()}
        self._byte_level = "ByteLevel" in repr(backend.decoder)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text. Special tokens written out in it ("<|im_start|>") become their single ids, as in vLLM
        and transformers: a prompt is the program's own. What people say goes through ``chat``, where it stays text.

        A character for which the model has no token at all is left out: in SmolLM2, a few control characters.
        """
        return self._backend.encode(text).ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of some token ids; bytes that are no whole character (yet) show as U+FFFD."""
        return self._backend.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def piece(self, token_id: int) -> str:
        """One token's own text, printable: a leading space stays a space, a newline shows as \\n, and bytes that are
        not a whole character show as \\xe2. For display only: it cannot be turned back into the id.
        """
        if token_id in self._added:
            return self._added[token_id]
        token = self._backend.id_to_token(token_id)
        if token is None:
            return f"[{token_id}]"  # a model may have more rows than its tokenizer has tokens
        if self._byte_level and BYTE_OF_CHARACTER.keys() >= set(token):
            text = bytes(BYTE_OF_CHARACTER[character] for character in token).decode("utf-8", "backslashreplace")
        elif BYTE_TOKEN.fullmatch(token):
            text = bytes([int(token[3:-1], 16)]).decode("utf-8", "backslashreplace")
        else:
            text = token.replace("\u2581", " ")  # SentencePiece's mark for a space
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

    def to_json(self) -> str:
        """As a tokenizer.json of Hugging Face's."""
        return self._backend.to_str()

    def token(self, token_id: int) -> str:
        """The token as the vocabulary names it. KeyError where it has none of that id."""
        if (token := self._backend.id_to_token(token_id)) is None:
            raise KeyError(token_id)
        return token

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Token ids of a conversation, up to where the model's answer begins.

        messages: [{"role": "system" or "user" or "assistant", "content": text}, ...]. Control tokens are those that
        the template writes; one that is written out in a message is ordinary text.
        PagedlabError where the model has no chat template or its template refuses the messages.
        """
        if not isinstance(messages, (list, tuple)):
            raise PagedlabError(f"a conversation is a list of messages, not {type(messages).__name__}")
        for message in messages:
            if not isinstance(message, dict) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
                raise PagedlabError(f'a chat message is {{"role": text, "content": text}}, not {message!r}')
        if not messages:
            raise PagedlabError("a conversation needs at least one message")
        return self._chat.encode(messages)

    @cached_property
    def _chat(self) -> ChatEncoder:
        if self.chat_template is None:
            raise PagedlabError(
                "this model has no chat template, it only continues text: use encode() with a prompt instead of chat()"
            )
        return ChatEncoder(self._backend, ChatTemplate(self.chat_template, self.special_tokens))


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's way to write any byte as a visible character: printable ones stand for themselves, the others are
    numbered from U+0100 on.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


CHARACTER_OF_BYTE = _byte_alphabet()
BYTE_OF_CHARACTER = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}


def byte_level_bpe(
    tokens: Sequence[str],
    merges: Sequence[str],
    special_ids: Iterable[int],
    *,
    split_digits: bool,
    eos_token_ids: Iterable[int],
    chat_template: str | None,
    special_tokens: dict[str, str] | None = None,
) -> Tokenizer:
    """GPT-2's byte-level BPE from its lists: token i is `tokens[i]`; a merge is "left right", the first one goes first.

    split_digits: each digit is a token of its own (SmolLM), so that numbers are read place by place.
    """
    vocab = {token: id_ for id_, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, words]) if split_digits else words
    backend.decoder = decoders.ByteLevel()
    special = [tokenizers.AddedToken(tokens[id_], special=True, normalized=False) for id_ in special_ids]
    backend.add_special_tokens(special)
    return Tokenizer(backend, eos_token_ids=eos_token_ids, chat_template=chat_template, special_tokens=special_tokens)


def byte_tokenizer() -> Tokenizer:
    """The tokenizer of `tiny-random`: token id = byte of the UTF-8 text, and three special tokens after them."""
    tokens = [CHARACTER_OF_BYTE[byte] for byte in range(256)] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return byte_level_bpe(
        tokens, [], range(256, 259), split_digits=False, eos_token_ids={256, 258}, chat_template=CHATML
    )
