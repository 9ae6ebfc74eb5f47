"""`gemma4 bench`: a benchmark of what serves, from its options to its table.

`bench_target`  the server that is measured, awake, and what it and its plan say of it
`bench_grid`    from the options to the points of the grid
`run_bench`     what it will take, each cell, and the file after each
`bench_table`   what is shown of a run
"""
