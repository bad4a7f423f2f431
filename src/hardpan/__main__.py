"""Lets ``python -m hardpan`` do what ``hardpan`` does."""

from hardpan.cli import main

if __name__ == "__main__":
    main()
