"""One folder an exercise: its parts, their questions, and what must hold of the answers."""
