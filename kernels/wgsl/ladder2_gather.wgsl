// Ladder 2 of 5: how is token 9 found, when the table says where the pages are?
//
// One workgroup a token. It translates its position as a processor translates an address; then its invocations copy
// the token's HEAD_SIZE numbers, each every LANES-th.
//
// Constants: BLOCK_SIZE; HEAD_SIZE; LANES.

@group(0) @binding(0) var<storage, read> key: array<f32>;      // [blocks, BLOCK_SIZE, HEAD_SIZE]: K of one head
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> destination: array<f32>;   // [length, HEAD_SIZE]

@compute @workgroup_size(LANES)
fn ladder2_gather(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let position = group.x;
    let physical_block_number = table[position / BLOCK_SIZE];
    let physical_block_offset = position % BLOCK_SIZE;
    let place = (physical_block_number * BLOCK_SIZE + physical_block_offset) * HEAD_SIZE;
    for (var dim = lane; dim < HEAD_SIZE; dim += LANES) { destination[position * HEAD_SIZE + dim] = key[place + dim]; }
}
