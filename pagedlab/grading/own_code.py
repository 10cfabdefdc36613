"""Is a part answered by the learner's code, or by pagedlab's own?

pagedlab holds what the exercises ask for, so ``from pagedlab.kv import BlockTable`` would be an answer without a line
written. While a part is asked, every function of pagedlab that answers it says no: its code is exchanged for one that
notes the call and raises. Who calls it, and by what name, list, attribute, subclass or wrapper it came there, does not
matter. Functions are found by where they were written, so a copy of one, or of its module, counts as the function; and
so does one that was made of our source text (``copied.py``). The notebook's own use of pagedlab, while its cells are
run, goes on.

Another Python would have our functions as they are. So none may be started meanwhile, those that the learner's cells
have started stand still (``holder.py``), and a second interpreter in this process is never made.

This is done beside the learner's code, so it is no lock. Open are: our source text with a line changed, and functions
of ours that are too small to be known again; results that our code gave before the part is asked; code that hides from
Python (an extension module); and code that looks for all this and undoes it. A reader notices. Allowed is to find a
prediction by running the engine: most notebooks do so themselves below the check (docs/instructors.md).
"""

from __future__ import annotations

import gc
import importlib
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pagedlab.grading.copied import inside as codes_inside
from pagedlab.grading.copied import text_of, texts_in
from pagedlab.grading.part import Verdict

# What starts a program, by the name that audit hooks get, and what makes a second interpreter.
STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system")
SECOND_INTERPRETER = "cpython.PyInterpreterState_New"
HINT = "What the notebook imports for you may be used. What the part asks for is to be your own code."
_MANAGER = ("pagedlab.kv.manager", "pagedlab.kv.observed")
_POOL = ("pagedlab.kv.block_pool", *_MANAGER)
_QUEUE = ("pagedlab.kv.block:FreeKVCacheBlockQueue", *_POOL)
_SCHEDULER = ("pagedlab.engine.scheduler", "pagedlab.engine.async_scheduler")
_ATTENTION = (
    "pagedlab.attention:paged_attention",
    "pagedlab.attention.reference",
    "pagedlab.attention.torch_backend",
    "pagedlab.kernels",
)
# What answers each part: modules and packages of pagedlab, or one thing in a module. A module with "-" does not.
ANSWERS = {
    "01.1": ("pagedlab.kv.contiguous", "pagedlab.kv.buddy"),
    "01.2": ("pagedlab.kv.contiguous", "pagedlab.kv.serving"),
    "02.1": ("pagedlab.kv.block_table",),
    "03.1": ("pagedlab.kv.block_table",),
    "03.2": ("pagedlab.kv.block_table",),
    "05.1": (*_ATTENTION, "pagedlab.grading.tasks.ex05.walk"),
    "05.2": _ATTENTION,
    "05.3": (*_ATTENTION, "-pagedlab.kernels", "-pagedlab.kernels.wgsl.gpu"),  # those two start what is answered
    "06.1": ("pagedlab.kv.paper", "pagedlab.kv.observed_paper"),
    "06.2": ("pagedlab.kv.paper", "pagedlab.kv.cow", "pagedlab.kv.observed_paper"),
    "06.3": ("pagedlab.kv.paper:BlockSpaceManager", "pagedlab.kv.cow", "pagedlab.kv.observed_paper"),
    "07.1": _QUEUE,
    "07.2": ("pagedlab.kv.prefix:extend_block_hashes", "pagedlab.kv.prefix:hash_block_tokens"),
    "07.3": _MANAGER,
    "07.4": _POOL,
    "08.1": ("pagedlab.kv.swap",),
    "08.2": ("pagedlab.kv.swap",),
    "08.3": ("pagedlab.engine.scheduler", "pagedlab.engine.paper_scheduler"),
    "09.1": ("pagedlab.executor.pool_size", "pagedlab.engine.cards"),
    "10.3": _QUEUE,
    "11.1": ("pagedlab.kv.cow", *_MANAGER),
    "12.1": ("pagedlab.trace.invariants",),
    "12.2": ("pagedlab.trace.invariants",),
    "12.3": ("pagedlab.trace.invariants",),
    "13.1": _SCHEDULER,
    "13.3": _SCHEDULER,
    "13.4": _SCHEDULER,
    "14.1": ("pagedlab.kv.groups",),
    "14.2": ("pagedlab.kv.groups",),
    "14.3": ("pagedlab.kv.groups",),
    "14.4": ("pagedlab.kv.groups",),
    "15.1": ("pagedlab.explain",),
    "15.2": ("pagedlab.explain",),
    "15.3": ("pagedlab.explain",),
    "15.4": ("pagedlab.trace.replay",),
    "17.1": ("pagedlab.viz.apart.answers",),
    "17.2": ("pagedlab.grading.tasks.ex17.library:multiply", "pagedlab.model.tiles"),
    "17.3": ("pagedlab.attention",),
}
_refusing: list[Refusing] = []  # those that are at work
_get_objects, _unfreeze = gc.get_objects, gc.unfreeze  # as they are before a learner's code is run


def not_own(found: str) -> Verdict:
    return Verdict(False, "the answer is your own code", found, (HINT,))


class Refusing:
    """A context in which pagedlab's own ``answers`` (as in ANSWERS) refuse to work. ``found`` says which of them was
    called first, None where none was."""

    def __init__(self, answers: Iterable[str]) -> None:
        self.found: str | None = None
        answers = list(answers)
        self._others = {importlib.import_module(answer[1:]).__file__ for answer in answers if answer.startswith("-")}
        self._places = [_place(answer) for answer in answers if not answer.startswith("-")]
        self._texts = {
            text: f"{module}.{name}"
            for module, place, inside in self._places
            for text, name in texts_in(place).items()
            if f"{name}.".startswith(inside)
        }
        self._names = {text[2] for text in self._texts}  # quick to look up: most functions ask for others
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Refusing:
        _unfreeze()  # what is frozen would not be found
        for item in _get_objects() if self._places else ():
            kind = type(item)
            if kind is types.FunctionType and (name := self.name_of(item.__code__)):
                self._exchange(item, name)
            elif kind.__name__ in ("JITFunction", "InterpretedFunction") and (name := self.name_of(item.fn.__code__)):
                for method in ("run", "rewrite"):  # Triton reads its functions, and does not call them
                    setattr(item, method, self._refusal(name))
                    self._undo.append(lambda item=item, method=method: delattr(item, method))
        _refusing.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _refusing.remove(self)
        while self._undo:
            self._undo.pop()()

    def name_of(self, code: types.CodeType) -> str | None:
        """How the code is called, where it is one of the answers', or has the text of one."""
        if code.co_filename in self._others:
            return None
        for module, file, inside in self._places:
            if code.co_filename.startswith(file) and f"{code.co_qualname}.".startswith(inside):
                return f"{module}.{code.co_qualname}"
        copied = self._texts.get(text_of(code)) if code.co_names in self._names else None
        return copied and f"{copied}, copied"

    def note(self, who: str) -> None:
        if self._places:
            self.found = self.found or f"it is answered by {who}"

    def _refusal(self, name: str) -> Callable[..., None]:
        def refuse(*_: Any, **__: Any) -> None:
            self.note(f"pagedlab's own {name}")
            raise RuntimeError(f"{name} answers this part; write it yourself")

        return refuse

    def _exchange(self, function: types.FunctionType, name: str) -> None:
        code, refuse = function.__code__, self._refusal(name)
        function.__code__ = _stub.__code__.replace(
            co_consts=tuple(refuse if const == "refuse" else const for const in _stub.__code__.co_consts),
            co_freevars=code.co_freevars,
            co_name=code.co_name,
            co_filename=code.co_filename,
            co_qualname=code.co_qualname,
        )
        self._undo.append(lambda: setattr(function, "__code__", code))


def notice(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook: while answers are refused, nobody makes new functions of their code, runs their module anew, or
    starts another Python. Raises RuntimeError where somebody makes a second interpreter."""
    if event == SECOND_INTERPRETER:
        raise RuntimeError("a second interpreter is not to be had while a notebook is graded")
    if event in ("exec", "function.__new__", *STARTS):
        for one in _refusing:
            if event in STARTS and ("python" in str(args[:2]).lower() or sys.executable in str(args[:2])):
                one.note("another Python process")
            elif isinstance(args[0], types.CodeType):
                for name in filter(None, map(one.name_of, codes_inside(args[0]))):
                    one.note(f"pagedlab's own {name}")


def _stub(*args: Any, **kwargs: Any) -> None:
    refuse = "refuse"
    refuse(*args, **kwargs)


def _place(answer: str) -> tuple[str, str, str]:
    """(module, how its files' names begin, how the names in them begin) of an entry in ANSWERS."""
    name, _, inside = answer.partition(":")
    module = importlib.import_module(name)  # now, so that nobody imports it while it is looked for
    file = Path(module.__file__)
    return name, str(file.parent if file.name == "__init__.py" else file), f"{inside}." if inside else ""
