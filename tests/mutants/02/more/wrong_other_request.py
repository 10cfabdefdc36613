"""Right byte, but the value is said to be A's."""
# loses: 02.3
# blamed 02.3: the value belongs to the request whose table holds its block

# part 02.3
key_begins = 1676288
value_of = ("A", 13)
