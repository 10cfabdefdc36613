"""Keeps twelve holes at most."""
# loses: 01.1
# blamed 01.1: no slot is lost and none appears: the holes hold what is free

# part 01.1
class FirstFit:
    """A strip of slots, handed out in one piece."""

    fit = "first"

    def __init__(self, num_slots):
        self.num_slots = num_slots
        self.holes = [(0, num_slots)]

    def reserve(self, length):
        for i, (start, size) in enumerate(self.holes):
            if size >= length:
                self.holes[i : i + 1] = [(start + length, size - length)] if size > length else []
                return start
        return None

    def release(self, start, length):
        joined = []
        for first, size in sorted([*self.holes, (start, length)]):
            if joined and joined[-1][0] + joined[-1][1] == first:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((first, size))
        self.holes = joined if len(joined) < 12 else joined[:12]

    @property
    def num_free(self):
        return sum(length for _, length in self.holes)
