"""Names that there are not."""
# loses: 12.5
# blamed 12.5: faults has one of the ten names for each of run 1 to run 10

# part 12.5
faults = {name: f"fault {name}" for name in lineup}
