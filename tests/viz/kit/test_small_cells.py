"""In a large pool most blocks are free: their cells are kept from step to step."""

from runs import scenes

from pagedlab import LLM, SamplingParams
from pagedlab.viz.kit import pool
from pagedlab.viz.kit.grid import pool_grid


def test_a_cell_that_is_kept_is_what_would_be_drawn_anew():
    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=256)
    for name in ("a", "b"):
        llm.add_request([7] * 9 + [ord(name)], SamplingParams(max_tokens=4, ignore_eos=True))
    while llm.has_unfinished_requests():
        llm.step()
    grid = pool_grid(256, (0, 0, 500, 300))
    assert grid.tier == "small"
    for scene in scenes(llm.trace):
        plain, turn = pool._plain(scene), {block: i for i, block in enumerate(scene.state.free)}
        assert len(plain) > 200
        for block in plain:
            assert [pool._free_cell(grid, block, scene.num_ranks)] == [*pool._small(scene, grid, block, turn[block])]
