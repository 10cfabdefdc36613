"""The last step of each run."""
# loses: 12.4
# blamed 12.4: the step is the first one in which a rule is broken

# part 12.4
steps = {name: len(run.step_ends()) for name, run in lineup.items()}
blocks = {name: 1 for name in lineup}
