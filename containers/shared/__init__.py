"""What the supervisor and the weights copy have in common. Standard library only, Python 3.9 or later.

`web` sends one HTTP request and says which errors are worth another try, `access_token` renews a Google access token,
`manifest` is the list of files that the weights copy writes and the supervisor reads.
"""
