"""Holds a learner's code in a process of its own and asks it what the judge wants to know.

Run as ``python -m pagedlab.grading.holder FILE IN OUT``: FILE holds the learner's cells one behind the other (a
real file, so that tools that look for source text, Triton's compiler among them, find it); IN and OUT are file
descriptors. The first line on IN is {"part": "03.1", "cells": [[first line, last line, name], …]}, each further
line {"case": …}. Each gets one line on OUT. What the learner's code prints goes elsewhere: descriptors 1 and 2 are
a log.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
import types
from typing import Any

from pagedlab.grading.own_code import borrowed
from pagedlab.grading.part import ask, load_part
from pagedlab.grading.plain import NotPlain, cells_of, plain


def load(path: str, cells: list[list[Any]]) -> tuple[types.ModuleType, list[str]]:
    """Run the cells one after the other in one module. An error in one does not keep the next ones from running, as
    in a notebook.

    Returns the module and what went wrong, one line each.
    """
    module = types.ModuleType("submission")
    module.__file__ = path
    sys.modules["submission"] = module
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    wrong = []
    for first, last, name in cells:
        # Empty lines before it, so that line numbers are those of the file.
        text = "\n" * (first - 1) + "\n".join(lines[first - 1 : last])
        try:
            exec(compile(ast.parse(text, path), path, "exec"), module.__dict__)
        except SyntaxError as error:
            wrong.append(f"{name}, line {(error.lineno or first) - first + 1}: {type(error).__name__}: {error.msg}")
        except Exception as error:
            frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
            where = f", line {frames[0] - first + 1}" if frames else ""
            wrong.append(f"{name}{where}: {type(error).__name__}: {error}"[:300])
    return module, wrong


def main() -> None:
    path, source, sink = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with os.fdopen(source, encoding="utf-8") as questions, os.fdopen(sink, "w", encoding="utf-8") as answers:

        def say(message: dict) -> None:
            answers.write(json.dumps(message) + "\n")
            answers.flush()

        start = json.loads(questions.readline())
        part = load_part(start["part"])
        cells_of(path, start["cells"])
        module, wrong = load(path, start["cells"])
        missing = [name for name in part.needs if name not in module.__dict__]
        objects = {name: module.__dict__.get(name) for name in part.needs}
        say({"missing": missing, "wrong": wrong, "borrowed": borrowed(part, objects)})
        for line in questions:
            try:
                say({"answer": plain(ask(part, objects, json.loads(line)["case"]))})
            except NotPlain as error:
                say({"failed": f"it gave {error}"})
            except Exception as error:
                say({"failed": f"{type(error).__name__}: {error}"[:300]})


if __name__ == "__main__":
    main()
