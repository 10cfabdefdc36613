"""`pagedlab demo`: the memory map in a terminal, one step of the engine at a time.

A run and a recorded run are shown by the same loop: it talks to a driver and draws what the driver's trace says.
"""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

from pagedlab.errors import PagedlabError
from pagedlab.terminal import CLEAR_SCREEN, is_terminal, paint, printable, use_colour, width
from pagedlab.trace import MemoryState, TraceDriver, load, replay, save
from pagedlab.trace.store import check_writable
from pagedlab.viz.memory.text import draw

PROMPT = "The operating system maps virtual pages to physical"
SPARE_BLOCKS = 4  # so that the free queue is there to see
FEWEST_BLOCKS = 12


def show_live(
    prompts: list[str], *, max_tokens: int, model: str, device: str | None, ranks: int | None = None, block_size: int,
    num_blocks: int | None, save_to: Path | None, play: bool, delay: float,
) -> None:
    """Run the prompts together on a small pool and show each step.

    ``save_to`` gets the trace, also of a run that was left early. Raises PagedlabError for whatever the engine refuses.
    """
    from pagedlab.engine import LLM, EngineDriver, SamplingParams

    params = SamplingParams(max_tokens=max_tokens)
    if save_to is not None:
        check_writable(save_to)
    if is_terminal(sys.stderr):
        print(paint(printable(f"Loading {model} …"), "dim", sys.stderr), file=sys.stderr)
    # The pool's size follows from the prompts' lengths in tokens, and only the model's tokenizer knows those.
    knobs = {"block_size": block_size, "tensor_parallel_size": ranks}
    loaded = LLM(model, device=device, num_gpu_blocks_override=num_blocks or 2, **knobs)
    if num_blocks is None:
        lengths = [min(len(loaded.tokenizer.encode(p)) + max_tokens, loaded.max_model_len) - 1 for p in prompts]
        num_blocks = max(FEWEST_BLOCKS, 1 + sum(-(-n // block_size) for n in lengths) + SPARE_BLOCKS)
    llm = LLM(loaded, record=True, num_gpu_blocks_override=num_blocks, **knobs)
    for prompt in prompts:
        llm.add_request(prompt, params)
    driver = EngineDriver(llm)
    try:
        walk(driver, play=play, delay=delay)
    finally:
        if save_to is not None:
            save(driver.trace, save_to)
            print(printable(f"The run is kept in {save_to}. To see it again: pagedlab demo --trace {save_to}"))


def show_recorded(path: Path, *, play: bool, delay: float) -> None:
    """Show a saved run. Raises PagedlabError for a file that is none."""
    driver = TraceDriver(load(path))
    if driver.num_steps == 0:
        raise PagedlabError(f"{path} holds no finished step, so there is nothing to show. Record it again.")
    try:
        replay(driver.trace)
    except ValueError as error:
        raise PagedlabError(f"{path}: {error}") from error
    walk(driver, play=play, delay=delay)


def walk(driver: TraceDriver, *, play: bool, delay: float) -> None:
    """Draw step after step, at a person's pace where there is one; without a terminal to the end at once."""
    on_screen = is_terminal(sys.stdout)
    asks = on_screen and sys.stdin.isatty() and not play
    selected = None  # whose memory is shown; None: the first that runs
    driver.step()  # the first picture is the prefill's: before it memory is empty
    while True:
        if on_screen:
            print(CLEAR_SCREEN, end="")
        print(picture(driver, selected), end="\n\n")
        if not driver.can_step:
            state = driver.state()
            print(*(textwrap.fill(closing(state, name), width()) for name in state.requests), "", sep="\n")
        if asks:
            answer = _ask(driver)
            if answer == "q":
                return
            if answer == "b":
                driver.step_back()
                continue
            if answer in driver.state().requests:
                selected = answer
                continue
            asks = answer != "p"
        elif on_screen and driver.can_step:
            time.sleep(delay)
        if not driver.can_step:
            return
        driver.step()


def picture(driver: TraceDriver, selected: str | None) -> str:
    """The memory map at the driver's cursor, in words too."""
    start, end = (driver.num_events(position) for position in (max(0, driver.position - 1), driver.position))
    trace, state = driver.trace, driver.state()
    selected = selected if selected in state.requests else None  # it has not arrived yet
    return draw(
        state, trace.events[start:end], trace.header, selected, position=driver.position,
        num_steps=driver.num_steps, live=trace.header.get("live", False), width=width(), color=use_colour(sys.stdout))


def _ask(driver: TraceDriver) -> str:
    """What to do next: "q", "b", "p", a request's name, or "" for the next step."""
    names = list(driver.state().requests)
    keys = {"": "Enter: next step" if driver.can_step else "Enter: end"}
    if driver.position > 0:
        keys["b"] = "b: back"
    if driver.can_step:
        keys["p"] = "p: play"
    keys["q"] = "q: quit"
    if len(names) > 1:
        keys |= {name: "" for name in names}
        which = ", ".join(names) if len(names) < 5 else f"{names[0]} to {names[-1]}"
        keys[names[-1]] = f"{which}: show its memory"
    hint = paint(" · ".join(filter(None, keys.values())) + " ", "dim")
    while True:
        try:
            answer = input(hint).strip()
        except EOFError:
            print()
            return "q"
        for key in (answer, answer.lower(), answer.upper()):
            if key in keys:
                return key


def closing(state: MemoryState, request_id: str) -> str:
    """What became of one request's tokens, in words."""
    request = state.requests[request_id]
    sampled = request.num_tokens - request.num_prompt_tokens
    written = request.num_computed_tokens - request.num_prompt_tokens
    if request.status != "finished":
        return (f"{request_id}: not finished; {request.num_computed_tokens} of its {request.num_tokens} tokens "
                "are in blocks.")
    return (f"{request_id}: {request.num_prompt_tokens} prompt tokens and {written} of {sampled} sampled ones went "
            "into blocks. The last one never does: no step comes that would read it.")
