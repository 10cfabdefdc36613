"""A hole that is exactly long enough is passed over."""
# loses: 01.1
# blamed 01.1: where some hole is long enough, the region is granted

# part 01.1
class FirstFit:
    fit = "first"

    def __init__(self, num_slots):
        self.num_slots = num_slots
        self.holes = [(0, num_slots)]

    def reserve(self, length):
        for i, (start, size) in enumerate(self.holes):
            if size > length:
                self.holes[i] = (start + length, size - length)
                return start
        return None

    def release(self, start, length):
        joined = []
        for first, size in sorted([*self.holes, (start, length)]):
            if joined and sum(joined[-1]) == first:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((first, size))
        self.holes = joined

    @property
    def num_free(self):
        return sum(length for _, length in self.holes)
