// Copies whole blocks from one memory to another: K or V of one layer. One workgroup a pair of blocks.
//
// Inside one pool a copy takes two of these, to a memory in between and back: so that all blocks are read before any
// is written. Constants: BLOCK, numbers of a block, a multiple of 4; LANES.

@group(0) @binding(0) var<storage, read> origin: array<Four>;               // [blocks, BLOCK]
@group(0) @binding(1) var<storage, read> sources: array<u32>;
@group(0) @binding(2) var<storage, read> destinations: array<u32>;
@group(0) @binding(3) var<storage, read_write> copies: array<Four>;         // [blocks, BLOCK]

const WIDTH = BLOCK / 4u;

@compute @workgroup_size(LANES)
fn move_blocks(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let source = sources[group.x] * WIDTH;
    let destination = destinations[group.x] * WIDTH;
    for (var i = lane; i < WIDTH; i += LANES) { copies[destination + i] = origin[source + i]; }
}
