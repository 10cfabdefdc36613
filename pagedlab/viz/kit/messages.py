"""What a front end is sent: the picture at the cursor as the difference from one that it has, and which of those that
it keeps are true no longer."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from pagedlab.viz.kit.marks import Picture, diff, picture
from pagedlab.viz.kit.model import LabModel

KEPT_PICTURES = 32  # how many sent pictures are remembered, to send the next one as a difference from one of them
Have = tuple[int, str | None]  # a picture that the front end has: its position, what was selected


class Messages(LabModel):
    """A lab that remembers what it sent."""

    def start_messages(self) -> None:
        self._sent: OrderedDict[Have, tuple[Any, Picture]] = OrderedDict()  # with the stamp it was drawn with
        self._strip: tuple[int, Picture] = (0, {})
        self._set_back = False  # since the last message
        self._front_cursor: Have | None = None  # where the front end is, as far as both sides know
        self._heard: int | None = None  # the number of the last message from there

    def read_on_and_clear(self) -> None:
        """Read on; where the run was set back, forget what was sent."""
        if self.read_on():
            self.start_over()

    def start_over(self) -> None:
        """Nothing that was sent is true any more (another run is shown)."""
        self._sent.clear()
        self._set_back = True

    def _message(self, have: Have | None = None, whole: bool = False) -> dict[str, Any]:
        """The picture at the cursor, as the difference from the one that the front end says it has (all of it where
        ``whole``).
        """
        self.read_on_and_clear()
        stale: list[Any] = ["all"] if self._set_back else []
        self._set_back = False
        view = self.view()
        marks = picture(view.marks)
        base = None if whole or have is None else self._sent.get(have, (0, None))[1]
        stamps = {position: self.stamp(position) for position, _ in self._sent}
        stale += sorted({k[0] for k, (stamp, _) in self._sent.items() if stamp != stamps[k[0]]})
        self._sent = OrderedDict((k, v) for k, v in self._sent.items() if k[0] not in stale)
        key = (self.position, self.selected)
        self._sent[key] = (self.stamp(self.position), marks)
        self._sent.move_to_end(key)
        self._front_cursor = key
        while len(self._sent) > KEPT_PICTURES:
            self._sent.popitem(last=False)
        words = {"next": "Next step", "verdict": "", "question": "", "say": view.title, "over": "End"} | view.words
        over = "" if self.can_step or self.position < self.num_steps else words["over"]
        return {
            "lab": {
                "name": self.NAME,
                "size": list(self.SIZE),
                **({"areas": [area._asdict() for area in self.AREAS]} if whole else {}),
            },
            "position": self.position,
            "selected": self.selected,
            "base": None if base is None else list(have),
            **diff(base or {}, marks),
            "stale": stale,
            **{name: words[name] for name in ("next", "verdict", "question", "say")},
            "run": {"steps": self.num_steps, "live": self.live, "over": over},
            "strip": self._strip_message(whole),
            "panes": self.panes(),
            "heard": self._heard,
        }

    def _strip_message(self, whole: bool) -> dict[str, Any]:
        strip = self.strip()
        marks = picture(strip.marks) if strip else {}
        version, old = self._strip
        if marks != old:
            self._strip = (version + 1, marks)
        size = {name: getattr(strip, name) for name in ("left", "top", "width", "height", "columns")} if strip else None
        base = None if whole else version
        return {"version": self._strip[0], "base": base, **diff({} if whole else old, marks), "size": size}
