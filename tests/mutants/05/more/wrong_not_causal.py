"""Every new token sees the whole context, those behind it too."""
# loses: 05.2
# blamed 05.2: a prompt's token sees itself and what stands before it, nothing behind it

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    output = torch.empty_like(query)
    group = query.shape[1] // layer.key.shape[2]
    for r in range(len(seq_lens)):
        for row in range(int(query_start_loc[r]), int(query_start_loc[r + 1])):
            for head in range(query.shape[1]):
                read = lambda block: (layer.key[block, :, head // group], layer.value[block, :, head // group])
                table = block_tables[r].tolist()
                output[row, head] = walk(query[row, head], read, table, int(seq_lens[r]), query.shape[2] ** -0.5)
    return output
