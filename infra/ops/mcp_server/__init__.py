"""The questions of the `gemma4` command as tools of an MCP server, for assistants.

`tools`            which questions are tools, and the function that answers each
`tool_signatures`  a tool's parameters, with the words of the command's own help
`confirmation`     what changes something is shown first, and done only when it is confirmed
`serve_tools`      the server, over standard input and output or over HTTP
"""
