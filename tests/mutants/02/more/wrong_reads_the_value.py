"""Goes to the value where the key is asked for."""
# loses: 02.3
# blamed 02.3: it is a key, and no value

# part 02.3
key_begins = 1676288 + 12288 * 4
value_of = ("B", 13)
