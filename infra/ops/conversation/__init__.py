"""Talking with the model: one question (`ask`) or a conversation (`chat`).

`ask`                 one question, its answer as it is written, its statistics
`chat`                a conversation: takes lines until its end
`dialogue`            a conversation in progress: sends each question with what was said before
`history`             what has been said, and which part of it still fits
`slash_commands`      what a chat does with a line that begins with a slash
`typed_lines`         reads what somebody types
`answer_wishes`       what is asked of an answer: length, thinking, tools, a schema; checked against the stack's plan
`attached_files`      reads images, sounds, tools and schemas, and finds what is wrong before anything is sent
`heard_answer`        listens to one answer until it ends, or until Ctrl-C
`live_answer`         prints an answer while it is written
`explained_refusals`  from a server's refusal to the option at fault
"""
