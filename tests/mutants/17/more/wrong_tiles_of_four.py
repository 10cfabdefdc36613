"""Tiles of 4 rows: more calls than there are sixteens."""
# loses: 17.2
# blamed 17.2: the library is called at most once for every 16 rows begun

# part 17.2
def product(x, weight, library):
    out = []
    for rows in x.split(4):
        tile = torch.zeros(4, x.shape[1])
        tile[: len(rows)] = rows
        out.append(library(tile, weight)[: len(rows)])
    return torch.cat(out)
