"""Does a wrong answer get past the checks? Every solution is changed in small ways, and each change has to lose.

    make mutants                               all exercises
    make mutants MUTANTS_ARGS="06 07.2"        one exercise, one part

``operators.py`` makes the mutants of a piece of source, ``decide.py`` asks a part's check about one in a process of its
own, ``cells.py`` knows what stands where in a notebook, ``listed.py`` reads ``tests/mutants/equivalent``, and
``table.py`` holds a part's mutants against that list.

A mutant that survives is either killed by a new deciding case, or listed there as equivalent, with the reason. It has
to be killed by a case that every draw has: no grade may hang on the draw.
"""
