"""Runs a learner's notebook in a process of its own, cell by cell as a kernel does, and asks its objects what the judge
wants to know.

Run as ``python -m pagedlab.grading.holder IN OUT``: two file descriptors. Each line on IN is a JSON object and gets one
on OUT, with the same "number":

    {"cell": source, "name": …}            run it     {"wrong": None, or what was raised, in one line}
    {"part": "03.1", "needs": […], …}      ask it     {"missing": names that are not defined}
    {"case": …}                            a question to that part     {"answer": …} or {"failed": …}, and "borrowed"
    {"told": …}                            what it asked on the way: before its answer to a case it may send {"asks": …}

What the learner's code prints goes elsewhere: descriptors 1 and 2 are a log. What knows the answers cannot be imported
here; the judge, outside, has it. While a part is asked that pagedlab's own code could answer, the processes that the
learner's code has started stand still.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell

import pagedlab.grading
from pagedlab.grading import checks
from pagedlab.grading.guard import descendants
from pagedlab.grading.part import ask
from pagedlab.grading.plain import NotPlain, cells_of, plain
from pagedlab.grading.tasks import probe_of

KNOW_THE_ANSWERS = ("pagedlab.grading.exercises", "pagedlab.grading.reference")


def private(name: str) -> ModuleType:
    """A copy of a module that no import leads to: what a learner's code does to the module, it does to another one."""
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own_code = private("pagedlab.grading.own_code")


def others() -> set[int]:
    """The processes that this one has started, and theirs. Orphans among them are the guard's children."""
    return set(descendants(os.getppid())) - {os.getpid()}


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            os.kill(pid, number)


class NotHere(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith(KNOW_THE_ANSWERS):
            raise ImportError(f"{name} knows the answers; the answer is to be your own code", name=name)


class Cells(CachingCompiler):
    """Gives every cell a real file: Triton's compiler and others look for source text there."""

    file = ""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return self.file or super().get_code_name(raw_code, transformed_code, number)

    def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        if self.file:
            with suppress(OSError):  # a learner may have filled or removed the folder
                Path(self.file).write_text(transformed_code, encoding="utf-8", errors="replace")
        return super().cache(transformed_code, number, raw_code)


class Notebook(InteractiveShell):
    """A kernel's shell without a kernel. Nothing is shown, so nothing is drawn; errors are told to the judge."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(compiler_class=Cells, **kwargs)
        self.history_manager.enabled = False
        self.display_formatter.active_types = ["text/plain"]
        self.folder = Path.cwd()

    def enable_gui(self, gui: Any = None) -> None: ...
    def showtraceback(self, *args: Any, **kwargs: Any) -> None: ...
    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None: ...

    def run(self, source: str, name: str) -> str | None:
        """Run one cell. What it raised, in one line."""
        file = str(self.folder / f"cell_{self.execution_count}.py")
        cells_of(file, [[1, source.count("\n") + 1, name]])
        self.compile.file = file
        try:
            result = self.run_cell(source, store_history=True)
        finally:
            self.compile.file = ""
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return None
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        text = str(error)
        if isinstance(error, SyntaxError):
            lines, text = lines or [error.lineno], error.msg
        where = f", line {lines[0]}" if lines else ""
        return f"{name}{where}: {type(error).__name__}: {text}"[:300]


class Holder:
    """One notebook, and the part that is being asked."""

    def __init__(self, line: Line) -> None:
        self.line, self.tells, self.cases = line, False, 0
        self.notebook = Notebook.instance()
        self.refusing, self.objects, self.probe = own_code.Refusing(()), {}, None
        self.stopped: set[int] = set()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        if "case" in message:
            return self._ask(message["case"]) | {"borrowed": self.refusing.found}
        if self.probe:
            self.refusing.__exit__()
            self.probe = None
            _signal(self.stopped, signal.SIGCONT)
        if "cell" in message:
            return {"wrong": self.notebook.run(message["cell"], message["name"])}
        defined = self.notebook.user_ns
        missing = [name for name in message["needs"] if name not in defined]
        if not missing:
            self.objects = {name: defined[name] for name in message["needs"]}
            self.probe, self.tells = probe_of(message["part"]), message["tells"]
            self.refusing = own_code.Refusing(message["answers"])
            self.refusing.__enter__()
            self.stopped = set()
            while message["answers"] and (new := others() - self.stopped):
                _signal(new, signal.SIGSTOP)
                self.stopped |= new
        return {"missing": missing}

    def _ask(self, case: Any) -> dict[str, Any]:
        self.cases += 1
        try:
            return {"answer": plain(ask(self.probe, self.objects, case, *[self._tell()] * self.tells))}
        except NotPlain as error:
            return {"failed": f"it gave {error}"}
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}"[:300]}

    def _tell(self) -> Callable[[Any], Any]:
        """What a case is asked with on the way. It ends with its case: who kept it would disturb the next one."""
        now = self.cases

        def tell(question: Any) -> Any:
            if self.cases != now or not self.probe:
                raise RuntimeError("this question belongs to a case that is over")
            self.line.say({"asks": question})
            return self.line.hear()["told"]

        return tell


class Line:
    """The way to the judge and back."""

    def __init__(self, questions: TextIO, answers: TextIO) -> None:
        self.questions, self.answers, self.number = questions, answers, ""

    def hear(self) -> dict[str, Any] | None:
        """What the judge says next; None at the end."""
        line = self.questions.readline()
        if not line:
            return None
        message = json.loads(line)
        self.number = message["number"]
        return message

    def say(self, answer: dict[str, Any]) -> None:
        self.answers.write(json.dumps(answer | {"number": self.number}) + "\n")
        self.answers.flush()


def main() -> None:
    source, sink = int(sys.argv[1]), int(sys.argv[2])
    sys.meta_path.insert(0, NotHere())
    sys.addaudithook(own_code.notice)
    for module in (pagedlab.grading, checks):  # the judge checks, and the notebook's own calls are not to fail
        module.check = module.report = lambda *args, **kwargs: None
    with os.fdopen(source, encoding="utf-8") as questions, os.fdopen(sink, "w", encoding="utf-8") as answers:
        holder = Holder(line := Line(questions, answers))
        while message := line.hear():
            line.say(holder.answer(message))


if __name__ == "__main__":
    main()
