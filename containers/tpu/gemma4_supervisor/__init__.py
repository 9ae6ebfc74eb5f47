"""Keeps one vLLM container on a TPU machine as the node's metadata say. Standard library only, Python 3.10 or later."""
