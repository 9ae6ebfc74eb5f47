"""What `gemma4 evaluate` asks a server, and how it judges the answers. It knows nothing of stacks and of the command line.

tasks.toml holds the questions, `task_set` reads them; `questions` turns one into a request, with `haystack` (long texts) and
`pictures` (drawn ones); `answer_judges` says whether an answer is right, `soundness` what a broken server's answers look like;
`evaluator` asks them all, `check_answers` as a stage of the serving check; `evaluation_record` holds what was found and judges
the server; `evaluation_comparison` compares two such runs, with `paired_statistics` to tell a difference from chance.
"""
