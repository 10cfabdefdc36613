"""Deals the KV heads out in turns: head % KV heads."""
# loses: 05.2
# blamed 05.2: a query head reads the KV head of its group

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    output = torch.empty_like(query)
    for r in range(len(seq_lens)):
        first, end = int(query_start_loc[r]), int(query_start_loc[r + 1])
        for row in range(first, end):
            for head in range(query.shape[1]):
                kv = head % layer.key.shape[2]
                read = lambda block: (layer.key[block, :, kv], layer.value[block, :, kv])
                length = int(seq_lens[r]) - (end - 1 - row)
                output[row, head] = walk(query[row, head], read, block_tables[r].tolist(), length, query.shape[2] ** -0.5)
    return output
