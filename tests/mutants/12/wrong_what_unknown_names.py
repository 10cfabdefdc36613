"""Names that there are not."""
# loses: 12.5

# part 12.5
faults = {name: f"fault {name}" for name in lineup}
