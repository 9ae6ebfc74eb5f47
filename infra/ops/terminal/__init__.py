"""What lies between a command and the terminal, whichever command it is.

`error_output`   how a command ends that cannot answer: the words or the data, and the exit code
`usage_errors`   what somebody meant who typed an unknown command or option
`completions`    what the shell offers after a word that has been begun
`progress`       what is being waited for, said when it takes longer than two seconds
`json_output`    data under the number of its schema
`safe_output`    the streams behind all of it: no text can steer the terminal, no encoding is too small

How text and tables are laid out stands in infra/planning/report.
"""
