"""gemma4: serve Gemma 4 with vLLM on Google Cloud, decided, priced and checked before anything is paid for.

Each room imports only from the rooms above it in this list:

`errors`, `suggestions`, `redaction`, `image_names`   what every room may say to a user
`catalog`      facts as data: models, machines, prices, recipes, flags of vLLM, each with its source
`planning`     settings in, Plan out: pure functions, without network and without Pulumi
`google`       clients of Google's APIs; `serving`: a client and the check of vLLM's server
`providers`    dynamic Pulumi resources, for what the gcp provider cannot do
`preflight`    asks what would stop a deployment, before anything is paid for; creates nothing
`components`   a Plan as Pulumi resources; they decide nothing
`config`, `stack`   what `pulumi up` runs: read the configuration, plan, deploy
`benchmark`    what is stored of a benchmark, and what is computed from it
`ops`          the `gemma4` command
"""

import os

# Pydantic would search every installed package for plugins before its first model: a third of a plan's time for nothing.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
