"""One call for each row: equal bits, and far too many calls."""
# loses: 17.2
# blamed 17.2: the library is called at most once for every 16 rows begun

# part 17.2
def product(x, weight, library):
    return torch.cat([library(row[None], weight) for row in x])
