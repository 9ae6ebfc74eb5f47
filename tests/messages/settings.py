"""Settings that are written wrongly in a stack file."""

from __future__ import annotations

from collections.abc import Mapping

from tests.messages.case import Case, written

ON_TPU = ("gemma-4-26b-a4b-it", "v6e-4")
ON_RTX = ("gemma-4-31b-it", "rtx-pro-6000")

SETTINGS: Mapping[str, tuple[Case, ...]] = {
    "Settings that cannot be read": (
        written("a checkpoint without an owner", 2, ("checkpoint",), "gemma4:checkpoint: support-tuned"),
        written(
            "a checkpoint in a folder of this machine", 2, ("checkpoint",), "gemma4:checkpoint: ./out/checkpoint-900"
        ),
        written(
            "an adapter without a repository", 2, ("serving.adapters.tone",), "gemma4:serving: {adapters: {tone: tone}}"
        ),
        written("a rank that vLLM does not take", 2, ("serving.adapterRank",), "gemma4:serving: {adapterRank: 12}"),
        written("a misspelt group", 2, ("servin",), "gemma4:servin: {maxModelLen: 4096}", meant="serving"),
        written(
            "a misspelt key",
            2,
            ("serving.maxModelLenn",),
            "gemma4:serving: {maxModelLenn: 4096}",
            meant="serving.maxModelLen",
        ),
        written(
            "a key outside its group", 2, ("maxModelLen",), "gemma4:maxModelLen: 4096", meant="serving.maxModelLen"
        ),
        written(
            "a key in snake case",
            2,
            ("serving.max_model_len",),
            "gemma4:serving: {max_model_len: 4096}",
            meant="serving.maxModelLen",
        ),
        written("a key like none", 2, ("serving.banana",), "gemma4:serving: {banana: 1}"),
        written("words for a number", 2, ("serving.maxModelLen",), "gemma4:serving: {maxModelLen: long}"),
        written("a fraction", 2, ("serving.maxNumSeqs",), "gemma4:serving: {maxNumSeqs: 4.5}"),
        written("neither yes nor no", 2, ("serving.tools",), "gemma4:serving: {tools: sometimes}"),
        written(
            "one member without a list", 2, ("access.invokers",), "gemma4:access: {invokers: group:ml@example.com}"
        ),
        written("a number for a text", 2, ("serving.env.VLLM_USE_V1",), "gemma4:serving: {env: {VLLM_USE_V1: 1}}"),
        written("a duration without a unit", 2, ("tpu.maxRunDuration",), "gemma4:tpu: {maxRunDuration: 24}"),
        written("a unit that is none", 2, ("tpu.maxRunDuration",), "gemma4:tpu: {maxRunDuration: 1w}"),
        written("a misspelt model", 2, ("model",), "", pair=("gemma-4-31-it", "l4"), meant="gemma-4-31b-it"),
        written(
            "a misspelt accelerator",
            2,
            ("accelerator",),
            "",
            pair=("gemma-4-12b-it-qat-w4a16", "rtx6000"),
            meant="rtx-pro-6000",
        ),
        written("neither model nor accelerator", 2, ("model", "accelerator"), "gemma4:region: us-east4", pair=("", "")),
        written("a choice that is none", 2, ("profile",), "gemma4:profile: latncy", meant="latency"),
        written("a group given a value", 2, ("serving",), "gemma4:serving: fast"),
        written("a value given a group", 2, ("serving.maxModelLen",), "gemma4:serving: {maxModelLen: {tokens: 4096}}"),
        written("a map given a list", 2, ("vllmArgs",), "gemma4:vllmArgs: [max-log-len]"),
        written(
            "utilization over 1", 2, ("serving.gpuMemoryUtilization",), "gemma4:serving: {gpuMemoryUtilization: 1.2}"
        ),
        written("a length below any use", 2, ("serving.maxModelLen",), "gemma4:serving: {maxModelLen: 1}"),
        written("everybody as a caller", 2, ("access.invokers[0]",), "gemma4:access: {invokers: [allUsers]}"),
        written(
            "an account without its project",
            2,
            ("access.invokers[0]",),
            "gemma4:access: {invokers: ['serviceAccount:app']}",
        ),
        written("everybody in other words", 2, ("access.invokers",), 'gemma4:access: {invokers: ["domain:*"]}'),
        written("a slice name that cannot be part of an id", 2, ("tpu.slices[0]",), "gemma4:tpu: {slices: [Blue-1]}"),
        written(
            "a caller by its address",
            2,
            ("gateway.priority[0]",),
            "gemma4:gateway: {priority: [app@my-project.iam.gserviceaccount.com]}",
        ),
        written(
            "a caller's number without quotes", 2, ("gateway.priority[0]",), "gemma4:gateway: {priority: [104857600]}"
        ),
        written("no request of any caller", 2, ("gateway.perCaller",), "gemma4:gateway: {perCaller: 0}"),
        written("no wait at all", 2, ("gateway.queueTimeout",), "gemma4:gateway: {queueTimeout: 0s}"),
        written("an hour in the queue", 2, ("gateway.queueTimeout",), "gemma4:gateway: {queueTimeout: 1h}"),
        written("an affinity that is none", 2, ("gateway.affinity",), "gemma4:gateway: {affinity: sessions}"),
        written("one slice twice", 2, ("tpu.slices",), "gemma4:tpu: {slices: [blue, blue]}"),
        written("a range that is none", 2, ("network.subnetCidr",), "gemma4:network: {subnetCidr: 999.0.0.0/26}"),
        written(
            "a range too small for Cloud Run", 2, ("network.subnetCidr",), "gemma4:network: {subnetCidr: 10.8.0.0/28}"
        ),
        written(
            "a range that begins in another one's middle",
            2,
            ("network.subnetCidr",),
            "gemma4:network: {subnetCidr: 10.8.0.5/26}",
        ),
        written("a range of the internet", 2, ("network.subnetCidr",), "gemma4:network: {subnetCidr: 8.8.8.0/26}"),
        written("a region that looks like none", 2, ("region",), "gemma4:region: us-east"),
        written("a region for a zone", 2, ("tpu.zone",), "gemma4:tpu: {zone: us-east5}"),
        written("a label in capitals", 2, ("labels.Team",), "gemma4:labels: {Team: ml}"),
        written("a label of our own", 2, ("labels.stack",), "gemma4:labels: {stack: other}"),
        written("a label that Google keeps for itself", 2, ("labels.goog-team",), "gemma4:labels: {goog-team: ml}"),
        written(
            "an unknown flag",
            2,
            ("vllmArgs.max-model-length",),
            "gemma4:vllmArgs: {max-model-length: 4096}",
            meant="max-model-len",
        ),
        written("an abbreviated flag", 2, ("vllmArgs.max-log-le",), "gemma4:vllmArgs: {max-log-le: 100}"),
        written("a removed flag", 2, ("vllmArgs.swap-space",), "gemma4:vllmArgs: {swap-space: 4}"),
        written(
            "a flag that a setting owns",
            2,
            ("vllmArgs.max-num-seqs",),
            """
            gemma4:serving: {maxNumSeqs: 8}
            gemma4:vllmArgs: {max-num-seqs: 4}
            """,
        ),
        written(
            "the negative of a flag that a setting owns",
            2,
            ("vllmArgs.no-enable-prefix-caching",),
            "gemma4:vllmArgs: {no-enable-prefix-caching: true}",
        ),
        written("a flag that only the program sets", 2, ("vllmArgs.port",), "gemma4:vllmArgs: {port: 9000}"),
        written(
            "a flag on and off",
            2,
            ("vllmArgs.no-enable-log-requests",),
            "gemma4:vllmArgs: {enable-log-requests: true, no-enable-log-requests: true}",
        ),
        written(
            "a flag with a value of the wrong kind",
            2,
            ("vllmArgs.max-log-len",),
            "gemma4:vllmArgs: {max-log-len: many}",
        ),
        written("a token in clear", 2, ("hfToken",), "gemma4:hfToken: A-TOKEN"),
        written("a token for the name of a secret", 2, ("hfTokenSecret",), "gemma4:hfTokenSecret: A-TOKEN"),
        written(
            "a token in the environment", 2, ("serving.env.MY_ACCESS",), "gemma4:serving: {env: {MY_ACCESS: A-TOKEN}}"
        ),
        written(
            "a secret in the environment",
            2,
            ("serving.env.VLLM_API_KEY",),
            "gemma4:serving: {env: {VLLM_API_KEY: abc}}",
        ),
        written(
            "a Docker Hub account without its token",
            2,
            ("images.dockerHubSecret",),
            "gemma4:images: {dockerHubUser: my-company}",
        ),
        written(
            "a Docker Hub account for a build",
            2,
            ("images.dockerHubUser",),
            "gemma4:images: {mode: build, dockerHubUser: my-company, dockerHubSecret: docker-hub-token}",
        ),
        written(
            "a Docker Hub token for the name of a secret",
            2,
            ("images.dockerHubSecret",),
            "gemma4:images: {dockerHubUser: my-company, dockerHubSecret: dckr_pat_0123456789abcdefghij}",
        ),
        written("a time to settle that is none", 2, ("access.settleTime",), "gemma4:access: {settleTime: 1h}"),
        written(
            "two tokens",
            2,
            ("hfTokenSecret",),
            """
            gemma4:hfToken: {secure: AAABAJ}
            gemma4:hfTokenSecret: hf-token
            """,
        ),
        written("a bucket that is not named", 2, ("weights.bucket",), "gemma4:weights: {source: existing}"),
        written("another program's namespace", 2, ("gemma:model",), "gemma:model: gemma-4-31b-it"),
        written("a key with and without its namespace", 2, ("gemma4:model",), "model: gemma-4-31b-it"),
        written("a key twice", 2, ("Pulumi.x.yaml line 4",), "gemma4:model: gemma-4-31b-it"),
        written("a bracket left open", 2, ("Pulumi.x.yaml line 4",), "gemma4:tpu: {slices: [blue}"),
        written("a date that is none", 2, ("Pulumi.x.yaml",), "gemma4:weights: {revision: 2026-99-99}"),
        written(
            "hosts that are none",
            2,
            (
                "serving.allowedMediaDomains[0]",
                "serving.allowedMediaDomains[1]",
                "serving.allowedMediaDomains[2]",
                "serving.allowedMediaDomains[3]",
                "serving.allowedMediaDomains[4]",
            ),
            """
            gemma4:serving:
              allowedMediaDomains: [https://a.example.com, "*.example.com", 10.0.0.1, localhost, A.example.com, a.example.com]
            """,
        ),
        written(
            "a number of image tokens that vLLM does not know",
            2,
            ("serving.visionTokens",),
            "gemma4:serving: {visionTokens: 99}",
        ),
        written(
            "image tokens past the setting",
            2,
            ("vllmArgs.mm-processor-kwargs",),
            "gemma4:vllmArgs: {mm-processor-kwargs: {images_kwargs: {max_soft_tokens: 99}}}",
        ),
        written(
            "image tokens past the setting, with a dot",
            2,
            ("vllmArgs.mm_processor_kwargs.max_soft_tokens",),
            "gemma4:vllmArgs: {mm_processor_kwargs.max_soft_tokens: 280}",
        ),
        written(
            "the image processor told twice",
            2,
            ("vllmArgs.mm-processor-kwargs",),
            """
            gemma4:serving: {visionTokens: 560}
            gemma4:vllmArgs: {mm-processor-kwargs: {do_resize: true}}
            """,
        ),
        written(
            "several at once",
            2,
            ("regoin", "model", "serving.maxModelLen", "serving.gpuMemoryUtilization", "scaling.cpu"),
            """
            gemma4:regoin: us-east4
            gemma4:serving: {maxModelLen: 1, gpuMemoryUtilization: 7}
            gemma4:scaling: {cpu: many}
            """,
            pair=("gemma-4-31-it", "l4"),
            meant="region",
        ),
    ),
    "Settings that cannot work": (
        written("a checkpoint that nobody counted", 3, ("checkpoint",), "gemma4:checkpoint: acme/gemma-4-12b-support"),
        written(
            "a checkpoint of another architecture",
            3,
            ("checkpoint",),
            "gemma4:checkpoint: RedHatAI/gemma-4-31B-it-FP8-dynamic",
        ),
        written(
            "a checkpoint that is quantised already and shall be again",
            3,
            ("serving.quantization",),
            """
            gemma4:checkpoint: RedHatAI/gemma-4-12B-it-FP8-Dynamic
            gemma4:serving: {quantization: fp8}
            """,
            pair=("gemma-4-12b-it", "rtx-pro-6000"),
        ),
        written(
            "adapters on TPU",
            3,
            ("serving.adapters",),
            "gemma4:serving: {adapters: {tone: my-org/tone-lora}}",
            pair=ON_TPU,
        ),
        written(
            "adapters that a streaming server could not read",
            3,
            ("weights.access",),
            """
            gemma4:serving: {adapters: {tone: my-org/tone-lora}}
            gemma4:weights: {access: stream}
            """,
        ),
        written(
            "a commit of an adapter that the server would not download",
            3,
            ("serving.adapters.tone",),
            """
            gemma4:serving: {adapters: {tone: my-org/tone-lora@0123abc}}
            gemma4:weights: {source: huggingface}
            """,
        ),
        written(
            "an adapter in another bucket than the existing one",
            3,
            ("serving.adapters.tone",),
            """
            gemma4:serving: {adapters: {tone: gs://training/tone-lora}}
            gemma4:weights: {source: existing, bucket: my-weights}
            """,
        ),
        written(
            "more drafts than a step takes with adapters",
            3,
            ("serving.maxNumBatchedTokens",),
            """
            gemma4:serving:
              adapters: {tone: my-org/tone-lora}
              maxNumSeqs: 128
              maxNumBatchedTokens: 400
              speculation: {method: ngram}
            """,
        ),
        written(
            "adapters that callers may load",
            3,
            ("serving.env.VLLM_ALLOW_RUNTIME_LORA_UPDATING",),
            'gemma4:serving: {env: {VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1"}}',
        ),
        written("a region without the GPU", 3, ("region",), "gemma4:region: europe-north1"),
        written("a zone without the slice", 3, ("tpu.zone",), "gemma4:tpu: {zone: us-west1-a}", pair=ON_TPU),
        written(
            "flex-start in a zone that refuses it", 3, ("tpu.zone",), "gemma4:tpu: {zone: us-south1-a}", pair=ON_TPU
        ),
        written("a run of eight days", 3, ("tpu.maxRunDuration",), "gemma4:tpu: {maxRunDuration: 8d}", pair=ON_TPU),
        written(
            "finer images on TPU", 3, ("serving.visionTokens",), "gemma4:serving: {visionTokens: 560}", pair=ON_TPU
        ),
        written(
            "an image larger than a step",
            3,
            ("serving.maxNumBatchedTokens",),
            "gemma4:serving: {visionTokens: 1120, maxNumBatchedTokens: 1024}",
        ),
        written(
            "vLLM's own way to choose the driver library",
            3,
            ("serving.env.VLLM_ENABLE_CUDA_COMPATIBILITY",),
            "gemma4:serving: {env: {VLLM_ENABLE_CUDA_COMPATIBILITY: '0'}}",
        ),
        written(
            "the tools template of another image",
            3,
            ("serving.chatTemplate",),
            "gemma4:serving: {chatTemplate: tools}",
            pair=ON_TPU,
        ),
        written(
            "a run that ends before it serves",
            3,
            ("tpu.maxRunDuration",),
            "gemma4:tpu: {maxRunDuration: 10m}",
            pair=ON_TPU,
        ),
        written(
            "a range that Docker has on the slices",
            3,
            ("network.subnetCidr",),
            "gemma4:network: {subnetCidr: 172.16.0.0/16}",
            pair=ON_TPU,
        ),
        written(
            "a range beside which there is none for the slices",
            3,
            ("network.subnetCidr",),
            "gemma4:network: {subnetCidr: 192.168.0.0/16}",
            pair=ON_TPU,
        ),
        written(
            "a request to a slice longer than Cloud Run allows",
            3,
            ("scaling.requestTimeout",),
            "gemma4:scaling: {requestTimeout: 2h}",
            pair=ON_TPU,
        ),
        written(
            "a probe over the cap",
            3,
            ("probes.startup.failureThreshold",),
            "gemma4:probes: {startup: {periodSeconds: 60, failureThreshold: 60}}",
        ),
        written(
            "a probe shorter than the start",
            3,
            ("probes.startup",),
            "gemma4:probes: {startup: {periodSeconds: 5, failureThreshold: 4}}",
        ),
        written("more CPU than the GPU's instance has", 3, ("scaling.cpu",), "gemma4:scaling: {cpu: 16}"),
        written(
            "more memory than the GPU's instance has", 3, ("scaling.memoryGib",), "gemma4:scaling: {memoryGib: 64}"
        ),
        written("a CPU count between two that exist", 3, ("scaling.cpu",), "gemma4:scaling: {cpu: 7}"),
        written(
            "fewer instances at most than at least",
            3,
            ("scaling.minInstances",),
            "gemma4:scaling: {minInstances: 3, maxInstances: 2}",
        ),
        written(
            "a request longer than Cloud Run allows",
            3,
            ("scaling.requestTimeout",),
            "gemma4:scaling: {requestTimeout: 2h}",
        ),
        written(
            "a bucket streamed by what cannot",
            3,
            ("serving.loadFormat",),
            """
            gemma4:serving: {loadFormat: safetensors}
            gemma4:weights: {access: stream}
            """,
        ),
        written(
            "audio on a model without an audio tower",
            3,
            ("serving.modalities.audio",),
            "gemma4:serving: {modalities: {audio: 1}}",
            pair=ON_RTX,
        ),
        written(
            "audio on TPU",
            3,
            ("serving.modalities.audio",),
            "gemma4:serving: {modalities: {audio: 1}}",
            pair=("gemma-4-e4b-it", "v6e-1"),
        ),
        written(
            "n-gram speculation with asynchronous scheduling",
            3,
            ("serving.asyncScheduling",),
            "gemma4:serving: {asyncScheduling: true, speculation: {method: ngram}}",
        ),
        written("int4 weights on TPU", 3, ("model",), "", pair=("gemma-4-12b-it-qat-w4a16", "v6e-4")),
        written(
            "31B on an L4 without offload",
            3,
            ("serving.cpuOffloadGb",),
            "gemma4:serving: {cpuOffloadGb: 0, safetensorsLoadStrategy: null}",
            pair=("gemma-4-31b-it-qat-w4a16", "l4"),
        ),
        written("quantising what is quantised", 3, ("serving.quantization",), "gemma4:serving: {quantization: fp8}"),
        written(
            "more devices than there are", 3, ("serving.tensorParallelSize",), "gemma4:serving: {tensorParallelSize: 2}"
        ),
        written(
            "a longer context than the model has positions",
            3,
            ("serving.maxModelLen",),
            "gemma4:serving: {maxModelLen: 300000}",
        ),
        written("a workload longer than the context", 3, ("workload",), "gemma4:workload: {promptTokens: 10000}"),
        written(
            "a video that one step cannot take",
            3,
            ("serving.maxNumBatchedTokens",),
            "gemma4:serving: {maxNumBatchedTokens: 1024, modalities: {video: 1}}",
        ),
        written(
            "an image older than the model",
            3,
            ("images.serving",),
            "gemma4:images: {serving: 'vllm/vllm-openai:v0.10.0'}",
        ),
        written(
            "pinning asked for, nothing pinned", 3, ("images.requirePinned",), "gemma4:images: {requirePinned: true}"
        ),
    ),
    "Settings that may work": (
        written(
            "more slots than adapters",
            0,
            ("serving.adapterSlots",),
            "gemma4:serving: {adapters: {tone: my-org/tone-lora}, adapterSlots: 4}",
        ),
        written("slots without adapters", 0, ("serving.adapterSlots",), "gemma4:serving: {adapterSlots: 4}"),
        written("a region by invitation", 0, ("region",), "gemma4:region: us-central1"),
        written(
            "fewer requests let in than run at once",
            0,
            ("scaling.concurrency",),
            """
            gemma4:serving: {maxNumSeqs: 16}
            gemma4:scaling: {concurrency: 2}
            """,
        ),
        written(
            "far more requests let in than run at once",
            0,
            ("scaling.concurrency",),
            """
            gemma4:serving: {maxNumSeqs: 4}
            gemma4:scaling: {concurrency: 200}
            """,
        ),
        written(
            "a run that has hardly begun when it ends",
            0,
            ("tpu.maxRunDuration",),
            "gemma4:tpu: {maxRunDuration: 25m}",
            pair=ON_TPU,
        ),
        written(
            "a wait for what is no longer asked for",
            0,
            ("tpu.waitForCapacity",),
            "gemma4:tpu: {validUntilDuration: 30m, waitForCapacity: 1h}",
            pair=ON_TPU,
        ),
        written(
            "a request that may be granted when nobody waits for it any more",
            0,
            ("tpu.validUntilDuration",),
            "gemma4:tpu: {validUntilDuration: 4h}",
            pair=ON_TPU,
        ),
        written(
            "a request that may stand for weeks",
            0,
            ("tpu.validUntilDuration", "tpu.validUntilDuration"),
            "gemma4:tpu: {validUntilDuration: 14d}",
            pair=ON_TPU,
        ),
        written(
            "an end for what has none",
            0,
            ("tpu.maxRunDuration",),
            "gemma4:tpu: {provisioning: on-demand, maxRunDuration: 4h}",
            pair=ON_TPU,
        ),
        written(
            "settings of another platform on TPU",
            0,
            ("scaling.minInstances", "scaling.cpu", "probes.startup.periodSeconds", "weights.access"),
            """
            gemma4:scaling: {minInstances: 1, cpu: 8}
            gemma4:probes: {startup: {periodSeconds: 5}}
            gemma4:weights: {access: stream}
            """,
            pair=ON_TPU,
        ),
        written(
            "flex-start in a zone where no request was reported",
            0,
            ("tpu.zone",),
            "gemma4:tpu: {zone: us-east1-d}",
            pair=ON_TPU,
        ),
        written(
            "folders of libraries of one's own",
            0,
            ("serving.env.LD_LIBRARY_PATH",),
            "gemma4:serving: {env: {LD_LIBRARY_PATH: /opt/lib}}",
        ),
        written(
            "hosts to fetch from without a way out",
            0,
            ("serving.allowedMediaDomains",),
            "gemma4:serving: {allowedMediaDomains: [images.example.com]}",
        ),
        written(
            "CUDA on TPU", 0, ("serving.cudaCompatibility",), "gemma4:serving: {cudaCompatibility: never}", pair=ON_TPU
        ),
        written("settings of another platform on a GPU", 0, ("tpu.zone",), "gemma4:tpu: {zone: us-east5-a}"),
        written("a gateway's settings on a GPU", 0, ("gateway.perCaller",), "gemma4:gateway: {perCaller: 8}"),
        written(
            "affinity with one server", 0, ("gateway.affinity",), "gemma4:gateway: {affinity: prefix}", pair=ON_TPU
        ),
        written(
            "affinity to servers that remember nothing",
            0,
            ("gateway.affinity",),
            """
            gemma4:gateway: {affinity: session}
            gemma4:serving: {prefixCaching: false}
            gemma4:tpu: {slices: [blue, green]}
            """,
            pair=ON_TPU,
        ),
        written(
            "priority where nothing waits",
            0,
            ("gateway.priority", "gateway.queueTimeout"),
            'gemma4:gateway: {priority: ["104857600000000000000"], queueTimeout: 1m}',
            pair=ON_TPU,
        ),
        written(
            "fewer requests sent than a slice runs",
            0,
            ("gateway.perServer",),
            """
            gemma4:gateway: {perServer: 16}
            gemma4:serving: {maxNumSeqs: 64}
            """,
            pair=ON_TPU,
        ),
        written(
            "a queue without room",
            0,
            ("gateway.perServer",),
            "gemma4:gateway: {perServer: 512}",
            pair=ON_TPU,
        ),
        written(
            "shares of callers before more slices than one gateway can fill",
            0,
            ("gateway.perCaller", "serving.gpuMemoryUtilization"),
            """
            gemma4:gateway: {perCaller: 32}
            gemma4:serving: {maxNumSeqs: 300}
            gemma4:tpu: {slices: [blue, green, red, white]}
            """,
            pair=ON_TPU,
        ),
        written(
            "a caller's share as large as the whole",
            0,
            ("gateway.perCaller",),
            "gemma4:gateway: {perCaller: 600}",
            pair=ON_TPU,
        ),
        written(
            "no compilation before the first request",
            0,
            ("serving.enforceEager",),
            "gemma4:serving: {enforceEager: true}",
            pair=ON_TPU,
        ),
        written(
            "far more requests let in than a slice runs",
            0,
            ("scaling.concurrency",),
            """
            gemma4:serving: {maxNumSeqs: 4}
            gemma4:scaling: {concurrency: 200}
            """,
            pair=ON_TPU,
        ),
        written(
            "more requests at once than a slice is sent",
            0,
            ("scaling.concurrency", "serving.gpuMemoryUtilization", "serving.maxNumSeqs"),
            "gemma4:serving: {maxNumSeqs: 600}",
            pair=ON_TPU,
        ),
        written(
            "fewer requests let in than a slice runs",
            0,
            ("scaling.concurrency",),
            "gemma4:scaling: {concurrency: 64}",
            pair=ON_TPU,
        ),
        written(
            "more requests let in than the gateway takes",
            0,
            ("scaling.concurrency",),
            """
            gemma4:tpu: {slices: [blue, green, red, white, teal]}
            gemma4:scaling: {concurrency: 1000}
            """,
            pair=ON_TPU,
        ),
        written("a region that the catalog has not heard of", 0, ("region",), "gemma4:region: us-eats5", pair=ON_TPU),
        written(
            "a flag that the arithmetic does not follow",
            0,
            ("vllmArgs.kv-cache-memory-bytes",),
            "gemma4:vllmArgs: {kv-cache-memory-bytes: 4G}",
        ),
        written(
            "a slice whose load nobody sees",
            0,
            ("vllmArgs.disable-log-stats",),
            "gemma4:vllmArgs: {disable-log-stats: true}",
            pair=ON_TPU,
        ),
    ),
}
