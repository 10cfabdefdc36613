// Ladder 1 of 5: what is a kernel, and what takes the place of a mask?
//
// A kernel is a function that runs many times at once. Triton's programs each hold a block of numbers; here a run, an
// *invocation*, holds one number, and PIECE of them are started together, a *workgroup*. 100 numbers in pieces of 64
// make two workgroups, and 28 invocations of the second one would read past the end: they leave at once.
//
// Constants: LENGTH; PIECE.

@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> destination: array<f32>;

@compute @workgroup_size(PIECE)
fn ladder1_copy(@builtin(global_invocation_id) id: vec3<u32>) {
    let element = id.x;
    if (element >= LENGTH) { return; }
    destination[element] = source[element];
}
