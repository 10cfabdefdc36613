"""The parent keeps its block, and the children copy."""
# loses: 06.4
# blamed 06.4: every table names the block that its sequence writes to

# part 06.4
copies = [(18, 14), (18, 19)]
tables = [[15, 17, 18], [15, 17, 14], [15, 17, 19]]
