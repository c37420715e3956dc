"""`python -m irontree`: the same as the `irontree` command."""

from irontree.cli.main import entry

if __name__ == "__main__":
    entry()
