"""A dictionary of holes, joined at both sides by hand; the account from differences."""
# loses: nothing

# part 01.1
class FirstFit:
    fit = "first"

    def __init__(self, num_slots):
        self.ends = {0: num_slots}

    @property
    def holes(self):
        return [(start, end - start) for start, end in sorted(self.ends.items())]

    @property
    def num_free(self):
        return sum(end - start for start, end in self.ends.items())

    def reserve(self, length):
        start = min((start for start, end in self.ends.items() if end - start >= length), default=None)
        if start is not None:
            end = self.ends.pop(start)
            if end > start + length:
                self.ends[start + length] = end
        return start

    def release(self, start, length):
        end = start + length
        end = self.ends.pop(end, end)
        for first, last in self.ends.items():
            if last == start:
                self.ends[first] = end
                return
        self.ends[start] = end

# part 01.2
def account(regions, holes, needs):
    token = reserved = internal = 0
    for length, needed, written in regions:
        token, reserved, internal = token + written, reserved + needed - written, internal + length - needed
    free, external = sum(holes), 0
    if needs is not None and needs <= free and (not holes or needs > max(holes)):
        free, external = 0, free
    return [token, reserved, internal, external, free]

# part 01.3
starts = (40, None, None)
account_after = (25, 8, 7, 8, 0)
