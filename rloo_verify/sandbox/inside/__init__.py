"""The programs that run inside a sandbox. Standard library only: they are sent there as source text (`bundle.py`)."""
