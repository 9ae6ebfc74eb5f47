"""Talking with the model: one question (`ask`) or a conversation (`chat`).

`ask`                 one question, its answer as it is written, its statistics
`answer_wishes`       what is asked of an answer: length, thinking, tools, a schema; checked against the stack's plan
`attached_files`      reads images, sounds, tools and schemas, and finds what is wrong before anything is sent
`heard_answer`        listens to one answer until it ends, or until Ctrl-C
`live_answer`         prints an answer while it is written
`explained_refusals`  from a server's refusal to the option at fault
"""
