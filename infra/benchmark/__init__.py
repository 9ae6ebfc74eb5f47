"""Benchmarks of a server that runs: what is stored of one, and what is computed from it.

stored_run.py is the form of the file, summary.py percentiles and intervals of a cell. This room draws nothing and knows
nothing of Pulumi or Google.
"""
