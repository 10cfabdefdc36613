// A new token's K and V into its slot, as in kernels/write_kv.py. One workgroup a token; a slot of 0xffffffff is
// skipped.
//
// Blocks lie one after the other, and so do a block's tokens: slot = block * block size + offset is a row of the pool.
// Constants: ROW, K (or V) of one token: KV heads * head size; KEY, where a token's key begins in qkv (its value
// follows); WIDTH, of a token's query, key and value together; LANES.

@group(0) @binding(0) var<storage, read> qkv: array<f32>;               // [tokens, WIDTH]
@group(0) @binding(1) var<storage, read> slot_mapping: array<u32>;
@group(0) @binding(2) var<storage, read_write> key: array<Number>;      // [blocks, block size, KV heads, head size]
@group(0) @binding(3) var<storage, read_write> value: array<Number>;

@compute @workgroup_size(LANES)
fn write_kv(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let slot = slot_mapping[group.x];
    if (slot == 0xffffffffu) { return; }
    let first = group.x * WIDTH + KEY;
    for (var i = lane; i < ROW; i += LANES) {
        key[slot * ROW + i] = Number(qkv[first + i]);
        value[slot * ROW + i] = Number(qkv[first + ROW + i]);
    }
}
