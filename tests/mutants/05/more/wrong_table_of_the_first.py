"""Every request reads by the first one's table."""
# loses: 05.2
# blamed 05.2: no call of your code ends in an error

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    output = torch.empty_like(query)
    group = query.shape[1] // layer.key.shape[2]
    for r in range(len(seq_lens)):
        first, end = int(query_start_loc[r]), int(query_start_loc[r + 1])
        for row in range(first, end):
            length = int(seq_lens[r]) - (end - 1 - row)
            for head in range(query.shape[1]):
                read = lambda block: (layer.key[block, :, head // group], layer.value[block, :, head // group])
                output[row, head] = walk(query[row, head], read, block_tables[0].tolist(), length, query.shape[2] ** -0.5)
    return output
