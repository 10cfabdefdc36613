"""A row of flags, holes by walking over it, counts by comprehension, and the prediction worked out."""
# loses: nothing

# added
def runs(flags):
    found, start = [], None
    for i, used in enumerate([*flags, True]):
        if not used and start is None:
            start = i
        if used and start is not None:
            found.append([start, i - start])
            start = None
    return found

# part 01.1
class FirstFit:
    fit = "first"

    def __init__(self, num_slots):
        self.flags = [False] * num_slots

    @property
    def holes(self):
        return runs(self.flags)

    @property
    def num_free(self):
        return self.flags.count(False)

    def reserve(self, length):
        print("reserve", length)
        for start in range(len(self.flags) - length + 1):
            if not any(self.flags[start : start + length]):
                self.flags[start : start + length] = [True] * length
                return start

    def release(self, start, length):
        for slot in range(start, start + length):
            self.flags[slot] = False
        return length

# part 01.2
def account(regions, holes, needs):
    kinds = []
    for length, needed, written in regions:
        kinds += ["token"] * written + ["reserved"] * (needed - written) + ["internal"] * (length - needed)
    waits = needs is not None and not [hole for hole in holes if hole >= needs]
    kinds += ["external" if waits and sum(holes) >= needs else "free"] * sum(holes)
    return tuple(kinds.count(kind) for kind in ("token", "reserved", "internal", "external", "free"))

# part 01.3
moment = puzzle(SEED)
flags = [False] * 48
now = []
for _, start, length, needed, written in moment.regions:
    flags[start : start + length] = [True] * length
    now.append((length, needed, written + 1))
starts, needs = [], None
for _, prompt, needed, length in moment.waiting:
    fitting = [start for start, size in runs(flags) if size >= length]
    if needs is None and fitting:
        starts.append(fitting[0])
        flags[fitting[0] : fitting[0] + length] = [True] * length
        now.append((length, needed, prompt))
    else:
        starts.append(None)
        needs = needs or length
account_after = account(now, [size for _, size in runs(flags)], needs)
