"""Published runs against predictions: how far off the planner is, and how often a run lies inside the printed band.

Read in this order: `published_runs` (a file of rows, read and checked), `predict` (each row predicted from its description
alone: its machine, flags and shape), `sets` (errors and bands of many rows: median, worst, share inside), `page`
(docs/scorecard.md).
"""
