"""A vLLM in this process under a lab's cursor."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import Recorder, Trace, TraceDriver
from pagedlab.trace.events import RequestArrived
from pagedlab.watch.header import header
from pagedlab.watch.hooks import Hooks, Note
from pagedlab.watch.tell import Teller, texts

HOW = (
    'Set os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0" before vllm is imported, and make a vllm.LLM(...) anew. '
    "(A server is watched from within: vllm serve ... --scheduler-cls pagedlab.watch.WatchedScheduler.)"
)


def of(llm: Any, *, anew: bool = False) -> WatchDriver:
    """A driver for the labs over this ``vllm.LLM``, whose engine runs in this process: ``memory_map(of(llm))`` steps
    vLLM's own engine. One that has worked already is shown as it is found. Drivers of one vLLM share one trace; with
    ``anew`` a trace begins here, with vLLM as it stands, and those before become recordings. PagedlabError for anything
    else, and for an engine with what our events have no words for."""
    try:
        engine = llm.llm_engine
        core = engine.engine_core.engine_core
        scheduler = core.scheduler
    except AttributeError:
        kind = f"{type(llm).__module__}.{type(llm).__qualname__}".removeprefix("builtins.")
        what = "an engine in another process" if hasattr(llm, "llm_engine") else f"a {kind}"
        raise PagedlabError(f"pagedlab.watch.of takes a vllm.LLM in this process, not {what}. {HOW}") from None
    if anew and hasattr(scheduler, "pagedlab_watch"):
        scheduler.pagedlab_watch.close()
        del scheduler.pagedlab_watch
    if not hasattr(scheduler, "pagedlab_watch"):
        scheduler.pagedlab_watch = Watch(scheduler, llm.get_tokenizer())
    return WatchDriver(llm, scheduler.pagedlab_watch)


class Watch:
    """What a scheduler does, as a trace. ``tokenizer``: vLLM's."""

    def __init__(self, scheduler: Any, tokenizer: Any) -> None:
        self.tokenizer = SimpleNamespace(encode=tokenizer.encode, piece=texts(tokenizer.decode))
        self.recorder = Recorder(header(scheduler))
        self.closed = False
        self._notes: list[Note] = []
        self._hooks = Hooks(scheduler, self._notes.extend)
        self._teller = Teller(self.recorder, self.tokenizer.piece, self._hooks.sources)
        if not self._hooks.is_fresh():
            self._notes.append(self._hooks.found())

    @property
    def trace(self) -> Trace:
        """With all that has happened by now. (To tell it is left until somebody asks: vLLM does not wait for that.)"""
        notes = list(self._notes)
        del self._notes[: len(notes)]
        self._teller.tell(notes)
        return self.recorder.trace

    def close(self) -> None:
        """Watch no more: vLLM's objects are as they were, and what was seen is a recording."""
        self._hooks.close()
        self.closed = True
        self.trace.header["live"] = False


class WatchDriver(TraceDriver):
    """A cursor over a live vLLM. In the past it only moves; at the end a step is vLLM's own, ``LLMEngine.step()``.

    What vLLM does otherwise (a cell calls ``llm.generate``, say) is in the trace too. A vLLM that is watched cannot be
    edited by hand, nor branched.
    """

    def __init__(self, llm: Any, watch: Watch) -> None:
        super().__init__(watch.recorder.trace)
        self.llm, self.watch, self.tokenizer = llm, watch, watch.tokenizer
        self._num_added = 0
        self.position = self.num_steps

    @property
    def trace(self) -> Trace:
        return self.watch.trace

    @property
    def can_step(self) -> bool:
        return super().can_step or self.has_unfinished_requests()

    def has_unfinished_requests(self) -> bool:
        """Is anything to be done, or under way, that this driver would see?"""
        engine = self.llm.llm_engine
        if self.watch.closed:
            return False
        return engine.has_unfinished_requests() or bool(engine.engine_core.engine_core.batch_queue)

    def step(self) -> bool:
        if not super().can_step:
            before = self.num_steps
            while self.num_steps == before and self.has_unfinished_requests():  # a call may only bring what is done
                self.llm.llm_engine.step()
        return super().step()

    def add_request(
        self, prompt: str | Sequence[int], params: Any = None, *, request_id: str | None = None, **settings: Any
    ) -> str:
        """Queue a prompt (text or token ids) in vLLM. Returns the name that the request has in the trace.

        ``params``: vLLM's SamplingParams; or their ``settings``, where temperature is 0 unless it is given.
        """
        from vllm import SamplingParams

        if self.watch.closed:
            raise PagedlabError("This watch has ended, and what it saw is a recording. Make another: watch.of(llm).")
        engine = self.llm.llm_engine
        params = params or SamplingParams(**{"temperature": 0.0, "max_tokens": 16} | settings)
        self._num_added += 1
        given = prompt if isinstance(prompt, str) else {"prompt_token_ids": list(prompt)}
        engine.add_request(request_id or letters(self._num_added), given, params)
        return next(e.request_id for e in reversed(self.trace.events) if isinstance(e, RequestArrived))


def letters(number: int) -> str:
    """1 is A, 26 is Z, 27 is AA."""
    name = ""
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name
