"""`python -m pagedlab` is `pagedlab`, also where the command is not on the PATH."""

from pagedlab.cli import main

main()
