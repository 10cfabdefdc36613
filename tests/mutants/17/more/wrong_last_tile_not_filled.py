"""The last tile is as small as it is."""
# loses: 17.2
# blamed 17.2: a row gets the same bits, however many rows come with it

# part 17.2
def product(x, weight, library):
    return torch.cat([library(rows, weight) for rows in x.split(16)])
