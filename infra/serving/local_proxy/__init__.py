"""Serves a remote endpoint on this machine with fresh tokens, so that any OpenAI client works without a line of Google code.

`fresh_token`    the token that goes with requests, made before the last one ends
`callers`        who may ask: programs on this machine, not pages of the web
`proxy_errors`   refusals and failures in OpenAI's form
`forwarding`     one request: sent on with the token, its answer handed back piece by piece as it comes
`proxy_server`   listening on loopback, from the first request to the end of the last answer
"""
