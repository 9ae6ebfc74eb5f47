"""Benchmarks of a server that runs: what is stored of one, and what is computed from it.

stored_run.py is the form of the file, summary.py percentiles and intervals of a cell. This room draws nothing and knows
nothing of Pulumi or Google.

Two runs are compared by run_comparison.py, which says what is a difference and what is noise; unlike_runs.py says first in
what the two differ. cell_key.py names a cell in both, repeat_figures.py the figures of a repeat, student_t.py has the
distribution behind the intervals.
"""
