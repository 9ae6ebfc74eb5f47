"""What users may set, and the way of a value from a stack file to the frozen `Settings` that a plan is made from.

`declarations`  every setting: type, range, default, meaning, example, and the flag of vLLM that it becomes
`stackfile`     reads `Pulumi.<stack>.yaml` into nested values
`flatten`       nested values to values by dotted path (`serving.maxModelLen`), and the keys that no setting has
`resolve`       lays defaults, recipes, stack file and command line over each other, and validates the result once
`messages`      one sentence for each way in which a value can be wrong
`paths`         which dotted paths exist, and nested values from paths
`cidr`          address ranges that a stack's network may have
"""
