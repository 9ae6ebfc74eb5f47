"""Benchmarks of a server that runs: how one is measured, what is stored of it, and what is computed from that.

stored_run.py is the form of the file, summary.py percentiles and intervals of a cell. This room draws nothing and asks
nothing of Pulumi or Google.

Measuring: grid.py has the points, capacity.py those that a server has room for, forecast.py how long they take,
random_prompts.py the requests; aiperf.py runs the load generator, measure_cells.py reads the server's counters around it and
judges what it measured by roofline.py, the most that a machine can do.

Two runs are compared by run_comparison.py, which says what is a difference and what is noise; unlike_runs.py says first in
what the two differ. cell_key.py names a cell in both, repeat_figures.py the figures of a repeat, student_t.py has the
distribution behind the intervals.

Runs are shown by plot_points.py, which says what is drawn and holds the same figures as tables, draw_plots.py, which draws
it with matplotlib, and report_page.py, which writes the page of HTML.
"""
