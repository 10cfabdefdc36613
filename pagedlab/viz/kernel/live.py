"""A query of a live engine, walked: by the watched kernel that the engine uses, or by the plain one, which keeps a
diary and is there in two dialects, Triton and WGSL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.viz.kernel.layout import Walk
from pagedlab.viz.kit.labels import hues, names
from pagedlab.viz.kit.progress import Progress

if TYPE_CHECKING:
    from pagedlab.attention import LayerKV
    from pagedlab.attention.diary import Diary
    from pagedlab.attention.watched import Iteration, Watched


def live_walk(llm: Any, request_id: str | None = None, layer: int = 0, *, dialects: bool = False) -> Walk:
    """Run a kernel; the numbers of every query head as plain data."""
    from pagedlab.attention.again import again
    from pagedlab.attention.diary import by_triton, by_wgsl, has_triton
    from pagedlab.attention.watched import watch

    if request_id is None:
        request_id = next(iter(llm.tables), None)
        if request_id is None:
            raise PagedlabError("No request is in memory: add one and take a step first.")
    query, blocks, context = last_query(llm, request_id, layer)
    pool, place = llm.executor.kv_pool, _place(llm.model_config, layer)
    buffers = getattr(pool, "buffers", None)  # WebGPU's; the layer is then a copy of what is in them
    kv = pool.layer(place)
    question = query, kv, blocks, context, query.shape[-1] ** -0.5
    if dialects or buffers or not has_triton():
        held = (pool.gpu, buffers[place]) if buffers else None
        with Progress(None, "The kernel runs in Triton and in WGSL …" if dialects else "The kernel runs …"):
            wgsl = by_wgsl(*question, held)
            diaries = (by_triton(*question), wgsl) if dialects else (wgsl,)
        run, output, where = _from(diaries, question), wgsl.output, wgsl.where
    else:
        with Progress(None, "The watched kernel runs …"):
            seen = watch(*question)
        run, output, where = _watched(seen, kv), seen.output, seen.where
    ids = [*llm.requests]
    order = [[block for _, _, block in span] for span in run["spans"]]
    return Walk(
        name=names(ids)[request_id],
        hue=hues(ids)[request_id],
        layer=layer,
        context=context,
        block_size=kv.block_size,
        num_blocks=kv.num_blocks,
        group=len(query) // kv.num_kv_heads,
        strides=kv.key.stride()[:3],
        element=kv.key.element_size(),
        where=where,
        live=True,
        again=again(*question, read=order, output=output, where=where),
        **run,
    )


def _watched(seen: Watched, kv: LayerKV) -> dict[str, Any]:
    """What a walk says of a run of the watched kernel."""
    from pagedlab.attention.watched import TILE

    return dict(
        tile=TILE,
        spans=[list(zip(s.iterations, s.logical_blocks, s.physical_blocks, strict=True)) for s in seen.spans],
        rows=[[(i.scores, i.largest, i.total, i.rescale, i.output) for i in of] for of in seen.iterations],
        base=kv.key.data_ptr(),
        difference=seen.difference,
        clocks=[None if s.sm is None else (s.sm, s.start_ns, s.end_ns) for s in seen.spans],
        badge=f"live · {seen.where}",
    )


def _place(config: Any, layer: int) -> int:
    """Where the layer's K and V lie in its group's blocks. PagedlabError for a layer with a window, which the kernels
    that can be watched do not have."""
    group = next(group for group in config.layer_groups if layer in group.layers)
    if group.window is not None:
        whole = [i for g in config.layer_groups if g.window is None for i in g.layers]
        which = f"take one of the layers {', '.join(map(str, sorted(whole)))}" if whole else "take another model"
        raise PagedlabError(
            f"Layer {layer} looks back at {group.window} tokens only, and the kernels that can be watched look at all: "
            f"{which}."
        )
    return group.layers.index(layer)


def _from(diaries: tuple[Diary, ...], question: tuple) -> dict[str, Any]:
    """What a walk says of runs of the plain kernel: a block an iteration; running maximum and sum are WGSL's own."""
    from pagedlab.attention.watched import apart, by_torch

    query, kv, *_ = question
    wgsl, group = diaries[-1], len(query) // kv.num_kv_heads
    loops = by_torch(*question, kv.block_size)
    return dict(
        tile=kv.block_size,
        spans=[[(i, i, line[0]) for i, line in enumerate(of)] for of in wgsl.lines[::group]],
        rows=[[_row(i, line) for i, line in zip(*of, strict=True)] for of in zip(loops, wgsl.lines, strict=True)],
        base=None,
        difference=apart(loops, wgsl.output),
        clocks=[None] * kv.num_kv_heads,
        badge=f"live · {' and '.join(d.dialect for d in diaries) if len(diaries) > 1 else wgsl.where}",
        diaries=diaries,
    )


def _row(loop: Iteration, line: tuple[int, int, float, float]) -> tuple:
    return loop.scores, line[2], line[3], loop.rescale, loop.output
