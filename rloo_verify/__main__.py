"""`python -m rloo_verify` is the command line."""

from rloo_verify.cli import main

main()
