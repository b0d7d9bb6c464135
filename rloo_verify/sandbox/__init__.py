"""Runs untrusted programs: locked-down warm containers (Docker) or namespaces (bubblewrap), one fork a test."""
