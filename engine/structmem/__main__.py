"""`python -m structmem`: the command line."""

from structmem.cli import main

if __name__ == "__main__":
    main()
