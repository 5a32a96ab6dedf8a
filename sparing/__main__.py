"""`python -m sparing`."""

from sparing.cli import main

if __name__ == "__main__":
    main()
