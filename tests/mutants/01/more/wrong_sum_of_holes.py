"""Looks at the sum of the free slots, and takes the first hole."""
# loses: 01.1
# blamed 01.1: a region lies in one hole, whole

# part 01.1
class FirstFit:
    fit = "first"

    def __init__(self, num_slots):
        self.num_slots = num_slots
        self.holes = [(0, num_slots)]

    def reserve(self, length):
        if self.num_free < length:
            return None
        start, size = self.holes[0]
        if size > length:
            self.holes[0] = (start + length, size - length)
        else:
            del self.holes[0]
        return start

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
