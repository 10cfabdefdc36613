"""What a decode step does on a CPU, in C++: few tokens, all weights, K and V in scattered blocks.

    eight.h      a vector of eight numbers
    linear.cpp   a few tokens times a matrix
    rows.cpp     the norm, rotary embedding, the gate
    layer.cpp    a layer before its attention, and behind it
    blocks.cpp   attention over blocks, and writing into them
    library      compiles these files once for this processor
    calls        calls them with torch's tensors

torch's own operations say the same, and serve every other case: without a compiler, on a GPU, in 16 bits, for long
prompts. They are made for many rows; for a few, reading the weights takes them twice as long as it has to.
"""
