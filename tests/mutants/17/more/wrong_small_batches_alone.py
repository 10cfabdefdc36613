"""One row has a way of its own."""
# loses: 17.2
# blamed 17.2: a row gets the same bits, however many rows come with it

# part 17.2
def product(x, weight, library):
    if len(x) == 1:
        return library(x, weight)
    out = []
    for rows in x.split(16):
        tile = torch.zeros(16, x.shape[1])
        tile[: len(rows)] = rows
        out.append(library(tile, weight)[: len(rows)])
    return torch.cat(out)
