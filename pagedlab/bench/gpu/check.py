"""`pagedlab gpu-check`: what the kernels do on the GPU of this machine, in one script of under four minutes.

    python -m pagedlab.bench.gpu.check [--compile-only | --webgpu] [--out FOLDER]     (from the repository too, nothing
                                                                                       installed)

It prints one table and leaves in FOLDER: `gpu-check.json` (all figures, and where they come from),
`gpu-kernel.jsonl.gz` (a watched run of the decode kernel) and `gpu-decode.jsonl.gz` (the engine decoding a model of
SmolLM2's sizes with random weights). It fetches nothing. Without a CUDA device it says so and measures nothing.
`--compile-only` needs no GPU: it compiles every shipped kernel for five targets and reads the binaries. `--webgpu`
is the same check for the kernels in WGSL on this machine's first WebGPU adapter, and leaves `webgpu-check.json`,
`webgpu-decode.jsonl.gz` and `webgpu-kernel.jsonl.gz`.

Parts run in the order of their importance; when the time is over, the rest is named as left out. A part that fails is
an entry in the table, not the end of the run. Exit status: 0 all right, 1 a wrong result (or a spill), 2 no CUDA
device, or no adapter.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pagedlab.bench.gpu.report import Report, provenance
from pagedlab.bench.gpu.shapes import Shapes
from pagedlab.bench.machine import keep
from pagedlab.errors import PagedlabError

SECONDS = 240  # for everything


def make_kernels_importable() -> None:
    """In a clone that is not installed `pagedlab.kernels` is not there: it is the folder `kernels/` beside
    `pagedlab/`.
    """
    if importlib.util.find_spec("pagedlab.kernels") is None:
        folder = Path(__file__).resolve().parents[3] / "kernels"
        spec = importlib.util.spec_from_file_location(
            "pagedlab.kernels", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        sys.modules["pagedlab.kernels"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def run(compile_only: bool, out: Path, webgpu: bool = False) -> int:
    """Run the check; see the module. Returns the exit status."""
    if compile_only and webgpu:
        raise PagedlabError(
            "--compile-only compiles the Triton kernels for NVIDIA's GPUs, and --webgpu runs the ones in WGSL on an "
            "adapter: give one of the two."
        )
    make_kernels_importable()
    return (run_compile_only if compile_only else run_webgpu if webgpu else run_cuda)(Path(out))


def run_cuda(out: Path) -> int:
    """Check the Triton kernels on the current CUDA device."""
    import torch

    if not torch.cuda.is_available():
        print(
            "No CUDA device is here: nothing was measured and nothing was written. On a machine with an NVIDIA "
            "GPU run this again; `pagedlab gpu-check --webgpu` checks any other GPU, and "
            "`pagedlab gpu-check --compile-only` needs none.",
            file=sys.stderr,
        )
        return 2
    from pagedlab.bench.gpu.parts import PARTS
    from pagedlab.bench.gpu.setting import Setting

    device = torch.device("cuda", torch.cuda.current_device())
    where = provenance(device)
    print(f"{where['device']}, sm_{where['compute_capability'].replace('.', '')}, torch {torch.__version__}, "
          f"triton {where['versions']['triton']}, {where['date']}")  # fmt: skip
    make_folder(out)
    with torch.cuda.device(device), torch.inference_mode():
        return measure(PARTS, Setting(device, out), where, out / "gpu-check.json")


def run_webgpu(out: Path) -> int:
    """Check the kernels in WGSL on this machine's first WebGPU adapter."""
    from pagedlab.kernels.wgsl.gpu import open_gpu

    try:
        gpu = open_gpu()
    except PagedlabError as error:
        print(f"{error} Nothing was measured and nothing was written.", file=sys.stderr)
        return 2
    from pagedlab.bench.gpu.webgpu.adapter import header_line, where
    from pagedlab.bench.gpu.webgpu.parts import PARTS
    from pagedlab.bench.gpu.webgpu.setting import WebGPUSetting

    found = where(gpu)
    print(header_line(gpu, found["date"]))
    make_folder(out)
    return measure(PARTS, WebGPUSetting(gpu, out, date=found["date"]), found, out / "webgpu-check.json")


def measure(parts: Sequence[tuple[str, Callable]], setting: Shapes, where: dict, path: Path) -> int:
    """Run the parts, each with a report and ``setting``, and keep the figures. Returns the exit status."""
    note, report = where.get("note"), Report(SECONDS)
    if note:
        print(note)
    for name, part in parts:
        report.run(name, part, setting)
    keep({"provenance": where, "parts": report.parts, "failed": report.failed,
          "seconds": round(report.seconds - report.left, 1)}, path)  # fmt: skip
    print(f"{report.seconds - report.left:.0f} s; {'SOMETHING IS WRONG' if report.failed else 'no wrong result'}; "
          f"written: {', '.join(sorted(one.name for one in path.parent.iterdir()))} in {path.parent}")  # fmt: skip
    if note:
        print(note)
    return 1 if report.failed else 0


def run_compile_only(out: Path) -> int:
    """Compile every shipped configuration for every target, then the rungs, and print what is in the binaries."""
    os.environ.pop("TRITON_INTERPRET", None)
    make_folder(out)  # now, and not when minutes are over
    from pagedlab.bench.gpu.compiled import examine_all

    found = examine_all()
    print(f"{'configuration':<32}{'target':>7}{'tile':>6}{'warps':>6}{'stages':>7}{'registers':>10}{'spills':>7}{'shared':>8}"
          f"{'limit':>8}{'16-byte loads':>14}{'tensor cores':>13}")  # fmt: skip
    bad = 0
    for row in found["configurations"]:
        if "refused" in row:
            print(f"{row['configuration']:<32}{'sm_' + str(row['sm']):>7}   refused: {row['refused']}")
            continue
        target = f"sm_{row['sm']}"
        print(f"{row['configuration']:<32}{target:>7}{row['tile']:>6}{row['warps']:>6}{row['stages']:>7}"
              f"{row['registers']:>10}{row['spill_instructions']:>7}{row['shared_bytes']:>8}{row['shared_limit']:>8}"
              f"{row['loads_16_bytes']:>14}{row['tensor_core_instructions']:>13}")  # fmt: skip
        bad += row["spill_instructions"] > 0 or row["stack_bytes"] > 0 or row["shared_bytes"] > row["shared_limit"]
    print("\nThe rungs: instructions of a warp in the loop, for 16 tokens of a KV head with 4 query heads of 128")
    rungs = {}
    for row in found["rungs"]:
        rungs.setdefault(row["rung"], {})[f"sm_{row['sm']}"] = row["for_16_tokens"]
    print(f"{'':<16}" + "".join(f"{target:>10}" for target in next(iter(rungs.values()))))
    for name, counts in rungs.items():
        print(f"{name:<16}" + "".join(f"{count:>10,.0f}" for count in counts.values()))
    keep({"provenance": provenance(), **found}, out / "gpu-compile.json")
    print(f"{len(found['configurations'])} rows, {bad} with spills or too much shared memory; written: "
          f"gpu-compile.json in {out}. Compiled only: no GPU ran any of this.")  # fmt: skip
    return 1 if bad else 0


def make_folder(path: Path) -> None:
    """Raises PagedlabError where it cannot be made, or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        what = getattr(error, "strerror", None) or error
        raise PagedlabError(f"{path} cannot be written: {what}. Name another folder with --out.") from error


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--webgpu", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("artifacts/gpu-check"))
    options = parser.parse_args()
    try:
        sys.exit(run(options.compile_only, options.out, options.webgpu))
    except PagedlabError as error:
        parser.error(str(error))
