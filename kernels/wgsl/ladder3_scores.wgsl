// Ladder 3 of 5: how is a query compared with every key of a block?
//
// One workgroup a *block* now, one invocation a token of it. Triton multiplies a whole tile and adds up its rows; here
// each invocation walks along its own key. The last block is only partly filled: what is past the length leaves.
//
// Constants: BLOCK_SIZE; HEAD_SIZE; LENGTH; SCALE.

@group(0) @binding(0) var<storage, read> query: array<f32>;    // [HEAD_SIZE]
@group(0) @binding(1) var<storage, read> key: array<f32>;      // [blocks, BLOCK_SIZE, HEAD_SIZE]: K of one head
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read_write> scores: array<f32>;   // [LENGTH]

@compute @workgroup_size(BLOCK_SIZE)
fn ladder3_scores(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) offset: u32) {
    let logical_block = group.x;
    let position = logical_block * BLOCK_SIZE + offset;
    if (position >= LENGTH) { return; }
    let place = (table[logical_block] * BLOCK_SIZE + offset) * HEAD_SIZE;
    var product = 0.0;
    for (var dim = 0u; dim < HEAD_SIZE; dim++) { product += query[dim] * key[place + dim]; }
    scores[position] = product * SCALE;
}
