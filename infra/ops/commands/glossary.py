"""The words that plans, messages and documents use, one entry each: `gemma4 explain WORD` prints it, and `make golden` writes
docs/glossary.md from it."""

from __future__ import annotations

from infra.planning.units import BAND_CLAIM

GLOSSARY = {
    "adapter": "A LoRA adapter: small matrices, trained for a task, that are added to those of a model. One server answers as "
    "its model and as each adapter, by the name in the request. See serving.adapters.",
    "band": "The range within which a predicted figure is expected: ≈ 27 tok/s (±20 %), or ≈ 1.36 (1.18 to 1.62) where its "
    f"ends lie unevenly. It is a claim: {BAND_CLAIM}. Where a band spans more than a factor of two, only its "
    "ends are printed: 9 to 24 min. How often the claim held for published runs: gemma4 scorecard",
    "bucket": "The Cloud Storage bucket of a stack. It holds the weights, copied once from Hugging Face. See weights.source.",
    "cached prompt": "A prompt that is already in the KV cache, such as the earlier part of a conversation, so the device "
    "computes almost nothing of it. The rates that a plan calls cached are for such prompts; they are higher than those for "
    "new ones. See serving.prefixCaching.",
    "capacity": "How many requests the KV cache holds at once, of the length in workload.promptTokens and "
    "workload.outputTokens; behind it, how many of the longest that serving.maxModelLen lets in. See: gemma4 explain knee",
    "catalog": "The facts that plans are made from: models, machines, prices, quotas, images, recipes and the flags of vLLM, "
    "each with its source and date. It is the folder infra/catalog.",
    "checkpoint": "The files of a model's weights. Instead of Google's own a stack may serve another one of the same "
    "architecture: a fine-tune, or another format. It is counted first, by: gemma4 pin OWNER/NAME. See checkpoint.",
    "cold start": "The first request after a quiet time waits until an instance has started; the plan's Start row says how "
    "long. See scaling.minInstances.",
    "deployer": "Somebody who runs `pulumi up`. A deployer may get identity tokens of the stack's invoker account, which the "
    "serving check needs. See access.deployers.",
    "ended request": "A queued resource whose slice has ended or was never granted: it serves nothing and still holds quota. "
    "See: gemma4 tpu ended",
    "fine-tune": "A checkpoint that somebody has trained further. Where its tensors are those of Google's, it takes the same "
    "memory and has the same speed. See checkpoint.",
    "flex-start": "TPU capacity from a queue: cheaper than on-demand, and for at most seven days. See tpu.provisioning and "
    "tpu.maxRunDuration.",
    "FP8": "Weights of 8 bits as floating-point numbers, half the memory of bf16. vLLM makes them of a bf16 checkpoint at "
    "start (serving.quantization), or a checkpoint holds them already (checkpoint).",
    "gateway": "The Cloud Run service in front of TPU slices. It lets callers in, spreads their requests over the slices, and "
    "sends none to one that says it is not ready. See scaling.concurrency.",
    "invoker": "An account that may call the endpoint. Each stack has its own, which the serving check uses; others are "
    "listed under access.invokers.",
    "knee": "The number of requests at once that the planner chooses unless serving.maxNumSeqs is set. With more requests, "
    "either the KV cache is full, or the device generates hardly more tokens in total while each request gets slower.",
    "KV cache": "What the server remembers of each running request: a key and a value for each token and layer. Its size "
    "limits how many tokens, and so how many requests, run at once. See serving.maxModelLen and serving.kvCacheDtype.",
    "MoE": "Mixture of experts: all weights are loaded, but only a part of them works on each token. gemma-4-26b-a4b-it is "
    "such a model.",
    "MTP": "Multi-token prediction: a small assistant model drafts tokens, which the model then checks in one step. See "
    "serving.speculation.method.",
    "new prompt": "A prompt of which nothing is in the KV cache yet, so the device computes all of it. Rates and prices "
    "are for new prompts, unless the plan calls them cached. See serving.prefixCaching.",
    "NVFP4": "Weights of 4 bits as floating-point numbers. Blackwell GPUs such as the RTX PRO 6000 compute in them; others "
    "only save the memory. See checkpoint.",
    "open fault": "A fault of vLLM whose thread was open when it was read, and that a configuration may meet. Whether it is "
    "mended in the version that serves is not known. `gemma4 plan g4x2 --full` lists them under Faults.",
    "origin": "Where the value of a setting comes from: default, recipe, profile, stack file or command line. `gemma4 plan l4 "
    "--json` lists them under origins.",
    "orphan": "A slice that carries the stack's labels, and is paid for, though the stack file no longer names it, or the "
    "stack's state does not know it. `gemma4 status` lists orphans with the command that gives each one back.",
    "pin": "To fix an image to its digest, or weights to a commit, so that the same plan deploys the same thing tomorrow. See "
    "images.requirePinned, and: gemma4 pin",
    "plan": "All that can be decided about a stack without the cloud: memory, capacity, speed, start, price, quotas, the "
    "command of vLLM and all resources. See: gemma4 plan l4",
    "prefix caching": "A prompt's part of the KV cache is used again by the next request that begins with the "
    "same words. See serving.prefixCaching.",
    "price": "What a stack costs at list prices: an hour while it runs, a month idle (with only what is always kept), and a "
    "month busy (all instances or slices, around the clock). See scaling.minInstances and scaling.maxInstances.",
    "profile": "What a stack is tuned for: latency, balanced or throughput. It decides the knee, and "
    "which recipe applies where a recipe is for one profile only. See: gemma4 explain profile",
    "QAT": "Quantization-aware training: the checkpoint was trained so that it loses little when its weights are stored in 4 "
    "bits. The ids of such models end in qat-w4a16.",
    "queued resource": "A request for a TPU slice. It waits in Google's queue until there is capacity, or until its time is "
    "over. See tpu.validUntilDuration.",
    "quota": "How much of one kind of machine Google lets a project use in a region or zone. The plan's Quota row gives what "
    "the stack needs and what a new project usually has; `gemma4 plan l4 --full` names each quota.",
    "recipe": "Settings that are known to suit a model on a machine. They apply where the stack file says nothing. The "
    "Basis row of `gemma4 plan l4 --full` names the recipe, and who has measured it.",
    "revision": "Either one version of a Cloud Run service, which a changed plan replaces by a new one; or one commit of a "
    "model at Hugging Face. See weights.revision.",
    "scorecard": "Predictions beside runs that others published, set by set: how large the errors are, and how many runs lie "
    "inside their bands. Rows of one's own can be compared in the same way. See: gemma4 scorecard",
    "serving check": "The last step of `pulumi up`: it waits for the new server, asks it for an answer, a tool call and each "
    "kind of media, and measures it. See: gemma4 status l4",
    "slice": "A TPU machine of one to eight chips that serves one copy of the model. See tpu.slices.",
    "spec": "The specification of a server: image, command, environment and weights, named by a hash such as "
    "spec-9f88695b9254. The server answers to this name too, which proves which version of the plan it runs.",
    "speed": "Tokens a second of answers as they are generated: for one request alone, and for all that run at once; where "
    "there are several servers, of each and of all together. A prediction, with its band. See: gemma4 explain new prompt",
    "speculative decoding": "A cheap drafter proposes tokens and the model checks them in one step. A single request gets "
    "faster, and its text stays the same. See serving.speculation.",
    "spot": "Capacity that Google may take back at any moment. See tpu.provisioning and machine.provisioning.",
    "stack": "One deployment, described by a stack file: the stack l4 is described by Pulumi.l4.yaml. See: gemma4 stacks",
    "supervisor": "The program on a machine that fetches what it should serve, starts vLLM there and watches it. It goes "
    "back to the last good spec when a new one does not come up.",
    "tensor parallelism": "Several devices share one model: each holds a part of every layer. See serving.tensorParallelSize.",
    "text only": "A server that takes no images, audio or video. On a GPU the towers for them are not loaded, which leaves "
    "more memory for the KV cache. Write 0 for each kind. See serving.modalities.",
    "tight": "The verdict on a plan that may or may not fit: the known error of the prediction is larger than the memory that "
    "is left.",
    "time to first token": "How long a caller waits until the answer begins. The plan calls it `first token`.",
    "verdict": "What a plan says in one word: fits, tight, or refused. Refused plans create nothing.",
    "w4a16": "Weights of 4 bits and activations of 16: a quarter of the memory of bf16. vLLM on TPU serves them only where the "
    "model is not a mixture of experts.",
}
"""Meaning by word."""

SYNONYMS = {
    "all": "speed",
    "basis": "recipe",
    "busy": "price",
    "check": "serving check",
    "cost": "price",
    "faults": "open fault",
    "first token": "time to first token",
    "fits": "verdict",
    "half-width": "band",
    "holds": "capacity",
    "idle": "price",
    "cached": "cached prompt",
    "kv": "KV cache",
    "lora": "adapter",
    "mixture of experts": "MoE",
    "multi-token prediction": "MTP",
    "perhaps": "tight",
    "pinned": "pin",
    "quotas": "quota",
    "recipes": "recipe",
    "repack": "checkpoint",
    "scale to zero": "cold start",
    "slices": "slice",
    "specification": "spec",
    "speculation": "speculative decoding",
    "stacks": "stack",
    "start": "cold start",
    "tok/s": "speed",
    "tp": "tensor parallelism",
    "third party": "checkpoint",
    "ttft": "time to first token",
}
"""Other words, in lower case, for an entry of the glossary."""
