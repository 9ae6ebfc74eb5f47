"""How a plan is shown: in words, as data, as a pull request's comment, and as a difference of two.

`first_screen`   what decides, in 23 lines; `next_steps` has what is still to do before `pulumi up`, as commands
`rows`           the whole plan in words, one subject a row, for the terminal and for the comment
`text`           prints either, or one part of a plan; `tables` and `terminal` lay out what any command prints
`data`           the plan as JSON, in the forms of `data_models`, with the `resources` that it leads to
`diff`           what two plans differ in, in lines of `change`: `figure_changes` has the prices and figures, `properties` the
                 inputs of a resource, `saved_plan` the form that a file must have; `running_effects` says what that does
                 to what is running, `diff_text` prints it
`markdown`       the comment
"""
