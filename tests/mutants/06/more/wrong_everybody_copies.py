"""Three writers, three copies."""
# loses: 06.4
# blamed 06.4: as many copies as there are writers that find the block shared

# part 06.4
copies = [(18, 14), (18, 19), (18, 16)]
tables = [[15, 17, 14], [15, 17, 19], [15, 17, 16]]
