"""A conversation as the model was trained on it: a Jinja template writes it, and what people said in it stays text.

What a template may use is what transformers gives it (``utils/chat_template_utils.py``): loop controls, the tag
``generation``, ``raise_exception``, ``strftime_now``, and a ``tojson`` that leaves HTML's characters alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import tokenizers

from pagedlab.errors import PagedlabError

# Unicode keeps these for a program's own use: around a control token's name in what somebody said, and around the
# number that stands for a control token that the template wrote.
CONTENT, CONTENT_END, CONTROL, CONTROL_END = "\ufdd0\ufdd1\ufdd2\ufdd3"


class ChatTemplate:
    """``source``: Jinja, as in Hugging Face's tokenizer_config.json. ``variables``: names such as ``bos_token``, for
    it. PagedlabError where it cannot be read."""

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        # jinja2 takes part in every torch installation. A template is a program from a stranger: hence the sandbox.
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(reason: str) -> None:
            raise TemplateError(reason)

        def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
            return json.dumps(
                value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
            )

        self._error = TemplateError
        self._variables = dict(variables)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_tag()]
        )
        environment.filters["tojson"] = tojson
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda format_: datetime.now().strftime(format_)
        try:
            self._template = environment.from_string(source)
            self._tree = environment.parse(source)
        except Exception as error:  # not only a TemplateError: a deep nesting, a filter that does not exist …
            raise PagedlabError(
                f"the model's chat template cannot be read ({error}): use generate() with a prompt instead of chat()"
            ) from error

    @cached_property
    def words(self) -> list[str]:
        """The text that stands in the template itself."""
        from jinja2 import nodes

        constants = [node.value for node in self._tree.find_all(nodes.Const)]
        written = [node.data for node in self._tree.find_all(nodes.TemplateData)]
        return [*written, *(value for value in constants if isinstance(value, str))]

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The text up to where the model's answer begins. PagedlabError where the template refuses the messages or
        cannot be filled in with them."""
        given = self._variables | {"tools": None, "documents": None, "add_generation_prompt": True}
        try:
            return self._template.render(given | {"messages": messages})
        except self._error as error:
            raise PagedlabError(f"the model's chat template refuses these messages: {error}") from error
        except Exception as error:  # whatever a stranger's program can raise
            raise PagedlabError(
                f"the model's chat template cannot be filled in with these messages ({type(error).__name__}: {error}): "
                "use generate() with a prompt instead of chat()"
            ) from error


def _generation_tag() -> type:
    """``{% generation %} … {% endgeneration %}`` marks for training what the model itself says; here it is text."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012  jinja2's own way

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    return Generation


class ChatEncoder:
    """Token ids of a rendered conversation. A control token counts where the template wrote it; where somebody wrote
    its name into a message, the name is ordinary text: nobody can say "<|im_end|>" and go on as somebody else.

    Control tokens are the special tokens, and the added ones that the template has in its own text. (A template whose
    turns are marked by ordinary words has none, and cannot be helped.)
    """

    def __init__(self, backend: tokenizers.Tokenizer, template: ChatTemplate) -> None:
        self._backend, self._template = backend, template
        self._control = {
            token.content: id_
            for id_, token in backend.get_added_tokens_decoder().items()
            if token.special or (token.content.strip() and any(token.content in words for words in template.words))
        }
        longest_first = sorted(self._control, key=len, reverse=True)
        self._names = "|".join(map(re.escape, longest_first)) or "(?!)"  # the last matches nothing
        self._longest = max(map(len, self._control), default=1)
        self._beginnings = {name[:n] for name in self._control for n in range(1, len(name))}
        known = backend.get_added_tokens_decoder()
        # A control token may be looked for in what the tokenizer makes of a text: "＜/S＞" can become "</s>".
        self._in_disguise = backend.normalizer is not None and any(known[i].normalized for i in self._control.values())

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """PagedlabError as in ``ChatTemplate.render``, and for text that cannot be told from a control token."""
        texts = list(_texts(messages))
        found = [text for text in texts if re.search(self._names, text) or self._begun(text)]
        if not found and not self._in_disguise:
            text = self._template.render(messages)
            return self._backend.encode(_whole(text), add_special_tokens=False).ids
        if re.search(f"[{CONTENT}-{CONTROL_END}]", "".join(texts)):
            raise PagedlabError("a message with a control token's name must not hold the characters U+FDD0 to U+FDD3")
        marked_messages = _mapped(messages, self._marked)
        text = re.sub(
            f"{CONTENT}(?P<content>{self._names}){CONTENT_END}|[{CONTENT}{CONTENT_END}]|(?P<control>{self._names})",
            lambda match: match["content"] or (_stand_in(self._control[match["control"]]) if match["control"] else ""),
            self._template.render(marked_messages),
        )
        backend, meant = self._without_names
        ids = backend.encode(_whole(text), add_special_tokens=False).ids
        made = [name for name, id_ in self._control.items() if id_ in ids]
        if made:
            raise PagedlabError(
                f"the model's tokenizer cannot read {made[0]!r} in a message as text: leave it out of the message"
            )
        return [meant.get(id_, id_) for id_ in ids]

    def _marked(self, text: str) -> str:
        """With marks around each name, not in its place: a template may look for it ("what comes after </think>"). An
        end that what follows might make a name of is marked, too."""
        end = CONTENT_END if self._begun(text) else ""
        words = text.rstrip()
        return re.sub(self._names, rf"{CONTENT}\g<0>{CONTENT_END}", words) + end + text[len(words) :]

    def _begun(self, text: str) -> bool:
        """Does the text, spaces aside, end as a control token's name begins?"""
        end = text.rstrip()[-self._longest :]
        return any(end[n:] in self._beginnings for n in range(len(end)))

    @cached_property
    def _without_names(self) -> tuple[tokenizers.Tokenizer, dict[int, int]]:
        """A copy of the tokenizer to which the names of control tokens are text; in their place it has the stand-ins,
        which behave alike. With it: the stand-in's id -> the control token's."""
        raw = json.loads(self._backend.to_str())
        for token in raw["added_tokens"]:
            token["special"] = token["special"] or token["content"] in self._control
        copy = tokenizers.Tokenizer.from_str(json.dumps(raw))
        copy.encode_special_tokens = True  # as text, that is
        known = self._backend.get_added_tokens_decoder()
        alike = ("single_word", "lstrip", "rstrip", "normalized")
        copy.add_tokens([
            tokenizers.AddedToken(_stand_in(id_), special=False, **{name: getattr(known[id_], name) for name in alike})
            for id_ in self._control.values()
        ])  # fmt: skip
        return copy, {copy.token_to_id(_stand_in(id_)): id_ for id_ in self._control.values()}


def _stand_in(token_id: int) -> str:
    return f"{CONTROL}{token_id}{CONTROL_END}"


def _texts(value: Any) -> Iterable[str]:
    """Every string in messages (keys of a dictionary are the caller's)."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same messages with every string changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return [_mapped(part, change) for part in value] if isinstance(value, (list, tuple)) else value


def _whole(text: str) -> str:
    """Raises PagedlabError for a lone surrogate, which is no Unicode text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PagedlabError("A message holds half a character (a lone surrogate); it must be Unicode text.") from None
    return text
