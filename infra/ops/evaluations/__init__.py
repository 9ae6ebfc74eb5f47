"""`gemma4 evaluate`: asks a server questions with known answers, stores what it said, and compares it with an earlier run.

`stored_evaluation`  the form of a stored run; how it is written, read and found again
`evaluation_scope`   from an endpoint and its plan to what is asked of it
`evaluate`           the answer of the command, for the terminal and for MCP
`evaluation_text`    that answer as text
"""
