"""What this program asks of a running vLLM server, without Google Cloud and without Pulumi. Read in this order:

`client` (one request at a time) with `chat_answer`, `stream`, `metrics` and `server_errors`, and `message_parts` (images
and sounds of a message); `load` (what `/metrics` says of the work) with `histogram`; `expectation` (what a check expects
and what it finds) with `planned_expectation` (what it expects of a plan's servers) and `served_expectation` (of a server
that nobody planned), `command_expectation` (of one that was planned before); `check` (the serving check from beginning to
end) with `readiness`, `check_stages`, `measure` and `samples`; `waking` (waits for a server that has scaled to zero);
`diagnosis` (from an answer and a log to the likely cause and the fix), and `loading_log` (what a starting server is doing).

`failure_search` finds the known failures of the catalog in lines of a log, in answers and in conditions; `metric_signals`
finds those that a server's metrics show.
`evaluation` asks questions with known answers, and says whether a server answers worse than before.
`kv_layout` and `memory_log` read how a server has laid out its memory, from labels and from its log.
`local_proxy` serves a remote server on this machine with fresh tokens.
"""
