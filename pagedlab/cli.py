"""The command `pagedlab`. Each command imports what it needs when it runs, so that `pagedlab --help` is quick.

Exit status: 0 done, 1 the answer is no (the course cannot run, a difference was found, too few points, no events
came), 2 the input was wrong (a sentence on standard error), 130 Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import pagedlab
from pagedlab.errors import PagedlabError
from pagedlab.terminal import is_terminal, printable, printable_lines

WrongUsage = typer.BadParameter.__base__  # whose module changes with typer's version

app = typer.Typer(
    name="pagedlab", no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="PagedAttention, taught by a small paged engine that you can run, step and rebuild. "
         "Start with `pagedlab doctor`, then `pagedlab demo`.",
)

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure on this machine; ratios from one run.")
app.add_typer(bench, name="bench")

Model = Annotated[str, typer.Option(
    help="smollm2, tiny-random (nothing to download, nonsense answers), a local Hugging Face folder, or a hub name.")]
Device = Annotated[str | None, typer.Option(
    help="cpu, cuda, mps or webgpu; by default what PAGEDLAB_DEVICE says, else cuda where there is one, else cpu.")]
NumBlocks = Annotated[int | None, typer.Option(
    "--num-gpu-blocks-override",
    help="Blocks in the pool, the null block included; by default as many as memory allows.")]

Ranks = Annotated[int | None, typer.Option(
    "--tensor-parallel-size", help="Over how many processes the model is split; by default 1.")]


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its status. Only errors that nobody expected leave a traceback."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`)
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal that has no "█" shows "?" there
    try:
        try:
            status = app(argv, prog_name="pagedlab", standalone_mode=False)
        finally:
            sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except PagedlabError as error:
        print(f"pagedlab: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
    except WrongUsage as error:
        error.message = printable_lines(error.message)
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # outside of a command; inside, typer has made an exit status of it
        sys.exit(130)
    except SystemExit as done:
        if done.code == 130 and sys.stderr.isatty():
            print(file=sys.stderr)  # the shell's next line begins on its own
        raise
    except BrokenPipeError:
        # The reader (`| head`) has gone. Python flushes standard output once more at its end: that must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        print(f"pagedlab: {error.strerror}: not everything could be written.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pagedlab {pagedlab.__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[bool, typer.Option(
        "--version", is_eager=True, callback=_print_version, help="Print the version and exit.")] = False,
) -> None:
    pass


def _checked(prompt: str) -> str:
    """The prompt, if it is text at all: a quick answer to what can be seen before torch and the model are loaded."""
    if not prompt:
        raise PagedlabError("The prompt is empty. Give at least one character.")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:  # bytes of the command line or of standard input that are no UTF-8
        raise PagedlabError(
            f"The prompt is not UTF-8 text (character {error.start}). Convert it, for example with iconv.") from None
    return prompt


@app.command()
def doctor() -> None:
    """Can the course run on this machine? If not, what to do."""
    from pagedlab import doctor as medical

    findings: list[medical.Finding] = []
    for line in medical.report(findings):
        print(line, flush=True)
    raise typer.Exit(int(any(f.state == "problem" for f in findings)))


@app.command("fetch-model")
def fetch_model() -> None:
    """Download the model (98 MB, once) and check it."""
    from pagedlab.model.download import ensure_model_file

    path = ensure_model_file()
    print(printable(f"The model is here, and its checksum is right: {path} ({path.stat().st_size / 1e6:.0f} MB)"))


@app.command()
def demo(
    prompts: Annotated[list[str] | None, typer.Argument(
        metavar="PROMPT", help="Text to go on from; several run together, in one pool.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Tokens to decode for each prompt.")] = 12,
    play: Annotated[bool, typer.Option("--play", help="Go on by itself; without a terminal it always does.")] = False,
    delay: Annotated[float, typer.Option(min=0, help="Seconds between two steps of --play.")] = 0.6,
    block_size: Annotated[int, typer.Option(help="Tokens in a block.")] = 4,
    num_blocks: Annotated[int | None, typer.Option(
        "--num-gpu-blocks-override",
        help="Blocks in the pool, the null block included; by default what the prompts need, and some more.")] = None,
    model: Model = "smollm2",
    device: Device = None,
    ranks: Ranks = None,
    save: Annotated[Path | None, typer.Option(help="Keep the run in this file (.jsonl or .jsonl.gz).")] = None,
    trace: Annotated[Path | None, typer.Option(
        help="Show a run that was kept with --save; nothing is computed.")] = None,
) -> None:
    """Watch tokens go into blocks, one step at a time."""
    from pagedlab import demo as show

    if trace is not None and (prompts or save):
        raise PagedlabError("--trace shows a run as it was recorded; leave out the prompt and --save.")
    if trace is not None:
        show.show_recorded(trace, play=play, delay=delay)
    else:
        show.show_live(
            [*map(_checked, prompts)] if prompts else [show.PROMPT], max_tokens=max_tokens, model=model, device=device,
            ranks=ranks, block_size=block_size, num_blocks=num_blocks, save_to=save, play=play, delay=delay)


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(
        metavar="PROMPT", help="The text to go on from; - reads it from standard input.")],
    max_tokens: Annotated[int, typer.Option(help="The most tokens to answer with.")] = 64,
    temperature: Annotated[float, typer.Option(help="0 always takes the likeliest token.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Choose among the k likeliest tokens; 0: among all.")] = 0,
    top_p: Annotated[float, typer.Option(
        help="Choose among the likeliest tokens that together have this probability.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Of the random choice; by default 0.")] = None,
    n: Annotated[int, typer.Option("--n", help="How many answers.")] = 1,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given several times.")] = None,
    stop_token_ids: Annotated[list[int] | None, typer.Option(
        metavar="ID", help="End at this token; may be given several times.")] = None,
    chat: Annotated[bool, typer.Option(
        "--chat", help="The prompt is a question to the assistant, not a text to go on from.")] = False,
    model: Model = "smollm2",
    device: Device = None,
    num_blocks: NumBlocks = None,
    ranks: Ranks = None,
) -> None:
    """Print what the model answers."""
    if prompt == "-":  # less the newline that `echo` puts at its end
        prompt = sys.stdin.buffer.read().decode(errors="surrogateescape").removesuffix("\n")
    prompt = _checked(prompt)

    from pagedlab.engine import LLM, SamplingParams
    from pagedlab.generate import answers, pieces

    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, n=n, max_tokens=max_tokens, stop=stop or [],
        stop_token_ids=stop_token_ids)
    llm = LLM(model, device=device, num_gpu_blocks_override=num_blocks, tensor_parallel_size=ranks)
    outputs = answers(llm, llm.tokenizer.chat([{"role": "user", "content": prompt}]) if chat else prompt, params)
    shown = printable_lines if is_terminal(sys.stdout) else str  # a file gets what the model said
    if n == 1 and is_terminal(sys.stdout):
        for piece in pieces(outputs, params.stop):
            print(shown(piece), end="", flush=True)
        print()
        return
    *_, last = outputs
    for answer in last.outputs:
        if n > 1:
            print(f"--- {answer.index + 1} of {n}")
        print(shown(answer.text))


@app.command()
def grade(
    paths: Annotated[list[Path], typer.Argument(
        metavar="PATH", help="Exercise notebooks, or folders of them.")],
    json: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Write the result to this file too, as data.")] = None,
    junit: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Write the result to this file too, as JUnit's XML.")] = None,
    out: Annotated[Path | None, typer.Option(
        metavar="FOLDER", help="Write the class table (CSV, HTML), what the class misses, and each learner's "
                               "feedback here.")] = None,
    min_score: Annotated[float | None, typer.Option(
        help="Exit with status 1 unless every notebook has this percentage of its points.")] = None,
    seed: Annotated[int | None, typer.Option(
        help="Of the predictions' puzzles; by default the one that each notebook names.")] = None,
    jobs: Annotated[int | None, typer.Option(
        help="Notebooks graded at a time; by default one for each core.")] = None,
    scheduler: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Grade on the Dask cluster whose scheduler this is (tcp://HOST:8786); with --out each "
                                "grade is kept as it comes, and the same command grades the rest.")] = None,
    workers: Annotated[int | None, typer.Option(
        help="The same with so many Dask workers on this machine.")] = None,
) -> None:
    """Grade exercise notebooks: points for each check."""
    from pagedlab.grading.command import run

    raise typer.Exit(run(
        paths, json_path=json, junit_path=junit, out=out, min_score=min_score, seed=seed, jobs=jobs,
        scheduler=scheduler, workers=workers))


@app.command()
def parity(
    files: Annotated[list[Path] | None, typer.Argument(
        metavar="FILE", help="Recordings of vLLM, or greedy continuations made with transformers; by default the "
                             "recordings that come with the package.")] = None,
    record: Annotated[Path | None, typer.Option(
        metavar="FOLDER", help="Instead of comparing, make new recordings with the vLLM that is installed.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first new recording; by default 0. With --record.")] = None,
    count: Annotated[int | None, typer.Option(
        help="How many new recordings of each kind; by default 10. With --record.")] = None,
    ranks: Annotated[int | None, typer.Option(
        "--tensor-parallel-size", help="Over how many processes the model is split; for greedy continuations.")] = None,
) -> None:
    """Replay recordings of vLLM: do we do the same?"""
    if ranks is not None and (record is not None or not files):
        raise PagedlabError(
            "--tensor-parallel-size is for greedy continuations: give their file too. Recordings of vLLM are replayed "
            "in this process.")
    if files and record is not None:
        raise PagedlabError("Give the files to compare, or --record with a folder for new recordings, not both.")
    if record is not None:
        from pagedlab.parity.record import record as make

        for path in make(record, seed=seed or 0, count=10 if count is None else count):
            print(printable(str(path)))
        return
    if seed is not None or count is not None:
        raise PagedlabError(
            "--seed and --count are of new recordings: give --record FOLDER too, or leave them out. What is compared "
            "is as it was recorded.")
    # Read when torch is loaded. The model runs here in many short steps, and threads that spin between them take the
    # cores from each other as soon as anything else runs: four times slower beside one busy process.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from pagedlab.parity import in_package, run

    raise typer.Exit(run(files or in_package(), ranks))


@app.command()
def attach(
    source: Annotated[str, typer.Argument(
        metavar="SOURCE", help="A server's address (tcp://127.0.0.1:5558 of a watched one, "
                               "tcp://HOST:5557 of one that publishes KV events), or a file of KV events.")],
    out: Annotated[Path | None, typer.Option(help="Save what came in to this trace file.")] = None,
    topic: Annotated[str, typer.Option(help="Only messages on this topic.")] = "",
    max_batches: Annotated[int | None, typer.Option(min=1, help="Stop after so many messages.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long; Ctrl-C stops too.")] = None,
) -> None:
    """Follow a running vLLM server: each step, or its prefix cache."""
    from pagedlab.attach import run
    from pagedlab.trace.store import check_writable

    if out is not None:
        check_writable(out)
    raise typer.Exit(run(source, out=out, topic=topic, max_batches=max_batches, seconds=seconds))


@app.command()
def explain(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A file that vLLM's log went to; - reads standard input.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a report.")] = False,
) -> None:
    """Say what a vLLM log tells of its memory, and what to try."""
    from pagedlab.explain import run

    run(log, json=json)


@app.command("gpu-check")
def gpu_check(
    compile_only: Annotated[bool, typer.Option(
        "--compile-only", help="Compile every kernel for five kinds of GPU; needs none.")] = False,
    webgpu: Annotated[bool, typer.Option(
        "--webgpu", help="The kernels in WGSL instead, on this machine's first WebGPU adapter.")] = False,
    out: Annotated[Path, typer.Option(
        metavar="FOLDER", help="Where the figures and traces go.")] = Path("artifacts/gpu-check"),
) -> None:
    """Check and measure the kernels on this machine's GPU."""
    from pagedlab.bench.gpu.check import run

    raise typer.Exit(run(compile_only, out, webgpu))


@bench.command("kv")
def bench_kv(
    rounds: Annotated[int, typer.Option(help="Rounds; the best one counts.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Time the memory manager, beside that of vLLM."""
    from pagedlab.bench.kv import run

    run(rounds=rounds, json=json)


@bench.command("fragmentation")
def bench_fragmentation(
    requests: Annotated[int, typer.Option(help="Requests of the longer workload.")] = 400,
    seed: Annotated[int, typer.Option(help="Of the workloads.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Serve one workload with contiguous and with paged memory."""
    from pagedlab.bench.fragmentation import run

    run(requests=requests, seed=seed, json=json)


@bench.command("preemption")
def bench_preemption(
    model: Model = "smollm2",
    device: Device = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Swap or recompute: predicted, then measured."""
    from pagedlab.bench.preemption import run

    run(model=model, device=device, json=json)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the raw figures in this file too, as JSON.")]


@bench.command("engine")
def bench_engine(
    against: Annotated[str | None, typer.Option(
        help="transformers: its padded batch and its continuous batching take turns with ours. "
             "vllm: eager and compiled (needs `make vllm`).")] = None,
    cases: Annotated[str, typer.Option(help="a: one sequence; b: a mixed batch; c: a common prompt.")] = "abc",
    rounds: Annotated[int, typer.Option(help="Rounds; medians count.")] = 3,
    model: Model = "smollm2",
    json: Json = False,
    out: Out = None,
) -> None:
    """Our speed, beside others' and this machine's bound."""
    from pagedlab.bench.engine import run

    run(model=model, cases=cases, rounds=rounds, against=against, json=json, out=out)


@bench.command("budget")
def bench_budget(
    rounds: Annotated[int, typer.Option(help="Rounds; the median counts.")] = 3,
    model: Model = "smollm2",
    json: Json = False,
    out: Out = None,
) -> None:
    """A long prompt beside decoding requests, by tokens a step."""
    from pagedlab.bench.budget import run

    run(model=model, rounds=rounds, json=json, out=out)


@bench.command("paging")
def bench_paging(
    steps: Annotated[int, typer.Option(help="Steps on each side; medians count.")] = 7,
    model: Model = "smollm2",
    json: Json = False,
    out: Out = None,
) -> None:
    """A decode step with paged and with contiguous memory."""
    from pagedlab.bench.paging import run

    run(model=model, steps=steps, json=json, out=out)


@bench.command("startup")
def bench_startup(
    rounds: Annotated[int, typer.Option(help="Rounds; medians count.")] = 3,
    model: Model = "smollm2",
    json: Json = False,
    out: Out = None,
) -> None:
    """How long until the first token, and until doctor is done."""
    from pagedlab.bench.startup import run

    run(model=model, rounds=rounds, json=json, out=out)


@bench.command("watch")
def bench_watch(
    steps: Annotated[int, typer.Option(help="Decode steps on each side in a round; medians count.")] = 40,
    rounds: Annotated[int, typer.Option(help="Rounds, with and without in turns.")] = 3,
    json: Json = False,
    out: Out = None,
) -> None:
    """What it costs vLLM to be watched (needs `make vllm`)."""
    from pagedlab.bench.watch import run

    run(steps=steps, rounds=rounds, json=json, out=out)


@bench.command("memory")
def bench_memory(
    steps: Annotated[int, typer.Option(help="Decode steps in which nothing may grow.")] = 10_000,
    model: Model = "smollm2",
    json: Json = False,
    out: Out = None,
) -> None:
    """Peak memory, beside weights and pool; growth in use."""
    from pagedlab.bench.memory import run

    run(model=model, steps=steps, json=json, out=out)


@bench.command("scaling")
def bench_scaling(
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it into this page, which needs no other.")
                    ] = None,
    steps: Annotated[int, typer.Option(help="Steps at each point; medians count.")] = 3,
    model: Model = "smollm2",
    json: Json = False,
    out: Out = None,
) -> None:
    """Time per step against batch and context."""
    from pagedlab.bench.scaling import run

    run(model=model, steps=steps, html=html, json=json, out=out)


@bench.command("labs")
def bench_labs(
    steps: Annotated[int, typer.Option(min=1, help="Clicks of each kind; the median counts.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    out: Out = None,
) -> None:
    """Time a click in every lab, and beside plotly."""
    from pagedlab.bench.labs import run

    run(steps=steps, json=json, out=out)


@bench.command("sharing")
def bench_sharing(
    n: Annotated[int, typer.Option("--n", help="How many answers, and how wide the beam is.")] = 4,
    max_tokens: Annotated[int, typer.Option(help="The most tokens to answer with.")] = 24,
    model: Model = "smollm2",
    device: Device = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Several answers to one prompt, in both eras."""
    from pagedlab.bench.sharing import run

    run(model=model, device=device, n=n, max_tokens=max_tokens, json=json)
