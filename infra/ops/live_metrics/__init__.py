"""What `gemma4 metrics` reads and shows, once or again and again.

`member_readings`  one server's readings, one after another: what changed between two, and which process answered
`load_answer`      the readings of all servers as one answer, with warnings
`metrics_screen`   an answer in words: a table, or a line
`watch_metrics`    the same again and again, until Ctrl-C
"""
