"""What a plan costs, from the price rows of the catalog.

Read estimate.py: `Rental` says what somebody who rents is asked for (each platform answers with its own price lines),
`estimate_cost` turns it into dollars an hour, a month, a million tokens. price_lines.py is one such line.
"""
