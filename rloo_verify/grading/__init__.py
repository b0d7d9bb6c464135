"""Grades programs: code out of a reply, tests out of a row, runs in a sandbox, and a comparison on the host."""
