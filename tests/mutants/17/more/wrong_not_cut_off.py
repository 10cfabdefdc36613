"""What fills the last tile up comes back, too."""
# loses: 17.2
# blamed 17.2: product returns a float32 tensor with a row for each row of x

# part 17.2
def product(x, weight, library):
    tiles = torch.cat([x, torch.zeros(-len(x) % 16, x.shape[1])]).split(16)
    return torch.cat([library(tile, weight) for tile in tiles])
