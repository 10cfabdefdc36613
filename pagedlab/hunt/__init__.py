"""The bug hunt: ten faults like those that real engines had, each put into ours and recorded.

``FAULTS`` says what each is and who reported it; ``record(name, seed)`` runs the engine with the fault in it, on a
small workload drawn from the seed, and gives the trace. Nothing in a trace is written by hand. ``honest(name, seed)``
is the same workload on our own parts.

Read ``faults.py`` for the list, ``parts.py`` for the faulty parts (a few lines each), ``stories.py`` for the workloads.
"""

from pagedlab.hunt.faults import EXAMPLE, FAULTS, Fault, honest, record

__all__ = ["EXAMPLE", "FAULTS", "Fault", "honest", "record"]
