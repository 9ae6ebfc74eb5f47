"""What people write wrongly, and what they read then: the key, the fact, what would happen, and what to write.

Each example is a stack file with the whole answer. `…` stands for a figure that the estimates decide. Exit code 2 is
for what cannot be read, 3 for what cannot work; what may work is planned with a warning.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.errors import Gemma4Error
from infra.planning.planner import make_plan
from infra.planning.settings.resolve import known_paths
from tests.projects import ROOT, Capture, Command, command, write_stack

QAT_12B, BF16_31B, QAT_31B, MOE = (
    "gemma-4-12b-it-qat-w4a16",
    "gemma-4-31b-it",
    "gemma-4-31b-it-qat-w4a16",
    "gemma-4-26b-a4b-it",
)
MODELS = (
    "gemma-4-e2b-it, gemma-4-e2b-it-qat-w4a16, gemma-4-e4b-it, gemma-4-e4b-it-qat-w4a16, gemma-4-12b-it, "
    "gemma-4-12b-it-qat-w4a16, gemma-4-26b-a4b-it, gemma-4-31b-it, gemma-4-31b-it-qat-w4a16"
)
ACCELERATORS = "l4, rtx-pro-6000, v6e-1, v6e-4, v6e-8, g4-1, g4-2, g4-4, g4-8"
SERVING = (
    "maxModelLen, maxNumSeqs, maxNumBatchedTokens, gpuMemoryUtilization, kvCacheDtype, quantization, dtype, "
    "cpuOffloadGb, enforceEager, tensorParallelSize, blockSize, asyncScheduling, prefixCaching, "
    "chunkedMultimodalInput, speculation, modalities, visionTokens, allowedMediaDomains, tools, reasoning, "
    "chatTemplate, loadFormat, safetensorsLoadStrategy, cudaCompatibility, readyTimeout, env"
)
NO_FLAG = "vLLM 0.32.0 would stop at its command line, after the machine is paid for."
IN_CLEAR = "It would stand in the repository and in the state for everyone to read."
SET_TOKEN = "Take it out, revoke it, and run: pulumi config set --secret gemma4:hfToken"
TOKEN = "hf_" + "a1B2" * 8


class Example(NamedTuple):
    """A stack file and what is said about it; the model and the accelerator stand before `body`."""

    title: str
    body: str
    said: tuple[str, ...]
    model: str = QAT_12B
    accelerator: str = "l4"


UNREADABLE = (
    Example(
        "a misspelt group",
        "gemma4:servin: {maxModelLen: 4096}",
        ("servin: no such setting. It would have no effect. Did you mean serving?",),
    ),
    Example(
        "a misspelt key",
        "gemma4:serving: {maxModelLenn: 4096}",
        ("serving.maxModelLenn: no such setting. It would have no effect. Did you mean serving.maxModelLen?",),
    ),
    Example(
        "a key outside its group",
        "gemma4:maxModelLen: 4096",
        ("maxModelLen: no such setting. It would have no effect. Did you mean serving.maxModelLen?",),
    ),
    Example(
        "a key in snake case",
        "gemma4:serving: {max_model_len: 4096}",
        ("serving.max_model_len: no such setting. It would have no effect. Did you mean serving.maxModelLen?",),
    ),
    Example(
        "a key like none",
        "gemma4:serving: {banana: 1}",
        (f"serving.banana: no such setting. It would have no effect. Known here: {SERVING}.",),
    ),
    Example(
        "words for a number",
        "gemma4:serving: {maxModelLen: long}",
        ("serving.maxModelLen: 'long' is not a whole number. Write for example serving.maxModelLen: 16384.",),
    ),
    Example(
        "a fraction",
        "gemma4:serving: {maxNumSeqs: 4.5}",
        ("serving.maxNumSeqs: 4.5 is not a whole number. Write for example serving.maxNumSeqs: 16.",),
    ),
    Example(
        "neither yes nor no",
        "gemma4:serving: {tools: sometimes}",
        ("serving.tools: 'sometimes' is neither true nor false. Write for example serving.tools: true.",),
    ),
    Example(
        "one member without a list",
        "gemma4:access: {invokers: group:ml@example.com}",
        (
            "access.invokers: 'group:ml@example.com' is not a list. "
            "Write for example access.invokers: [group:ml@example.com].",
        ),
    ),
    Example(
        "a number for a text",
        "gemma4:serving: {env: {VLLM_USE_V1: 1}}",
        ('serving.env.VLLM_USE_V1: 1 is read as a number, not as text. Write serving.env.VLLM_USE_V1: "1".',),
    ),
    Example(
        "a duration without a unit",
        "gemma4:tpu: {maxRunDuration: 24}",
        (
            "tpu.maxRunDuration: 24 is read as a number, not as text. "
            "Write for example tpu.maxRunDuration: 24h; in quotes where it looks like a number.",
        ),
    ),
    Example(
        "a unit that is none",
        "gemma4:tpu: {maxRunDuration: 1w}",
        ("tpu.maxRunDuration: '1w' is not a duration; write a whole number and a unit: 90s, 20m, 4h or 7d.",),
    ),
    Example(
        "a misspelt model",
        "",
        ("model: 'gemma-4-31-it' is not in the catalog. It cannot be planned. Did you mean gemma-4-31b-it?",),
        model="gemma-4-31-it",
    ),
    Example(
        "a misspelt accelerator",
        "",
        ("accelerator: 'rtx6000' is not in the catalog. It cannot be planned. Did you mean rtx-pro-6000?",),
        accelerator="rtx6000",
    ),
    Example(
        "neither model nor accelerator",
        "gemma4:region: us-east4",
        (
            f"model: is missing. Write one of: {MODELS}.",
            f"accelerator: is missing. Write one of: {ACCELERATORS}.",
        ),
        model="",
        accelerator="",
    ),
    Example(
        "a choice that is none",
        "gemma4:profile: latncy",
        ("profile: 'latncy' is not one of latency, balanced, throughput. Did you mean latency?",),
    ),
    Example(
        "a group given a value",
        "gemma4:serving: fast",
        (f"serving: 'fast' is not a group of settings. Write keys under it: {SERVING}.",),
    ),
    Example(
        "a value given a group",
        "gemma4:serving: {maxModelLen: {tokens: 4096}}",
        ("serving.maxModelLen: takes one value, not a group. Write serving.maxModelLen: 16384.",),
    ),
    Example(
        "a map given a list",
        "gemma4:vllmArgs: [max-log-len]",
        (
            "vllmArgs: [max-log-len] is not a group of keys. "
            "Write keys under it, for example vllmArgs: {max-log-len: 100}.",
        ),
    ),
    Example(
        "utilization over 1",
        "gemma4:serving: {gpuMemoryUtilization: 1.2}",
        (
            "serving.gpuMemoryUtilization: 1.2 is too large: at most 0.99. "
            "Write for example serving.gpuMemoryUtilization: 0.9.",
        ),
    ),
    Example(
        "a length below any use",
        "gemma4:serving: {maxModelLen: 1}",
        ("serving.maxModelLen: 1 is too small: at least 256. Write for example serving.maxModelLen: 16384.",),
    ),
    Example(
        "everybody as a caller",
        "gemma4:access: {invokers: [allUsers]}",
        (
            "access.invokers[0]: 'allUsers' has the wrong form; write it like group:ml@example.com or "
            "serviceAccount:app@my-project.iam.gserviceaccount.com.",
        ),
    ),
    Example(
        "an account without its project",
        "gemma4:access: {invokers: ['serviceAccount:app']}",
        (
            "access.invokers[0]: 'serviceAccount:app' has the wrong form; write it like group:ml@example.com or "
            "serviceAccount:app@my-project.iam.gserviceaccount.com.",
        ),
    ),
    Example(
        "everybody in other words",
        'gemma4:access: {invokers: ["domain:*"]}',
        ("access.invokers: domain:* is everybody. The endpoint would be public. Name a group.",),
    ),
    Example(
        "a slice name that cannot be part of an id",
        "gemma4:tpu: {slices: [Blue-1]}",
        (
            "tpu.slices[0]: 'Blue-1' has the wrong form; write it like blue (lower-case letters and digits, at most 12).",
        ),
    ),
    Example(
        "no slice at all",
        "gemma4:tpu: {slices: []}",
        ("tpu.slices: has 0 entries, at least 1 are needed. Write for example tpu.slices: [blue, green].",),
    ),
    Example(
        "one slice twice",
        "gemma4:tpu: {slices: [blue, blue]}",
        ("tpu.slices: names a slice twice. Two slices would share one id. Write [blue, green].",),
    ),
    Example(
        "a range that is none",
        "gemma4:network: {subnetCidr: 999.0.0.0/26}",
        ("network.subnetCidr: '999.0.0.0/26' is no IPv4 range of /16 to /26; write it like 10.8.0.0/26.",),
    ),
    Example(
        "a range too small for Cloud Run",
        "gemma4:network: {subnetCidr: 10.8.0.0/28}",
        ("network.subnetCidr: '10.8.0.0/28' is no IPv4 range of /16 to /26; write it like 10.8.0.0/26.",),
    ),
    Example(
        "a range that begins in another one's middle",
        "gemma4:network: {subnetCidr: 10.8.0.5/26}",
        ("network.subnetCidr: '10.8.0.5/26' begins in the middle of a range; write 10.8.0.0/26.",),
    ),
    Example(
        "a range of the internet",
        "gemma4:network: {subnetCidr: 8.8.8.0/26}",
        (
            "network.subnetCidr: '8.8.8.0/26' is not private, that is in none of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 "
            "and 100.64.0.0/10; write it like 10.8.0.0/26.",
        ),
    ),
    Example(
        "a region that looks like none",
        "gemma4:region: us-east",
        ("region: 'us-east' has the wrong form; write it like us-east4.",),
    ),
    Example(
        "a region for a zone",
        "gemma4:tpu: {zone: us-east5}",
        ("tpu.zone: 'us-east5' has the wrong form; write it like us-east5-a.",),
    ),
    Example(
        "a label in capitals",
        "gemma4:labels: {Team: ml}",
        ("labels.Team: 'Team' has the wrong form; write it like team.",),
    ),
    Example(
        "a label of our own",
        "gemma4:labels: {stack: other}",
        (
            "labels.stack: is a label of our own, by which a stack's slices are found again. What is paid for could not "
            "be found. Choose another key.",
        ),
    ),
    Example(
        "a label that Google keeps for itself",
        "gemma4:labels: {goog-team: ml}",
        (
            "labels.goog-team: begins with goog, which Google keeps for itself. The deployment would be refused. "
            "Choose another key.",
        ),
    ),
    Example(
        "an unknown flag",
        "gemma4:vllmArgs: {max-model-length: 4096}",
        (f"vllmArgs.max-model-length: is no flag of vLLM 0.32.0. {NO_FLAG} Did you mean max-model-len?",),
    ),
    Example(
        "an abbreviated flag",
        "gemma4:vllmArgs: {max-log-le: 100}",
        (
            "vllmArgs.max-log-le: is an abbreviation. vLLM would read it as --max-log-len, until another flag begins "
            "with the same letters. Write max-log-len in full.",
        ),
    ),
    Example(
        "a removed flag",
        "gemma4:vllmArgs: {swap-space: 4}",
        (
            f"vllmArgs.swap-space: is no longer a flag in vLLM 0.32.0. {NO_FLAG} "
            "Leave it out; to keep KV cache in host memory write kv-offloading-size.",
        ),
    ),
    Example(
        "a flag that a setting owns",
        """
        gemma4:serving: {maxNumSeqs: 8}
        gemma4:vllmArgs: {max-num-seqs: 4}
        """,
        (
            "vllmArgs.max-num-seqs: --max-num-seqs is already decided by serving.maxNumSeqs. "
            "The command would carry it twice. Write serving.maxNumSeqs instead, once.",
        ),
    ),
    Example(
        "the negative of a flag that a setting owns",
        "gemma4:vllmArgs: {no-enable-prefix-caching: true}",
        (
            "vllmArgs.no-enable-prefix-caching: --enable-prefix-caching is already decided by serving.prefixCaching. "
            "The command would carry it twice. Write serving.prefixCaching instead, once.",
        ),
    ),
    Example(
        "a flag that only the program sets",
        "gemma4:vllmArgs: {port: 9000}",
        ("vllmArgs.port: --port is already decided by the program. The command would carry it twice. Take it out.",),
    ),
    Example(
        "a flag on and off",
        "gemma4:vllmArgs: {enable-log-requests: true, no-enable-log-requests: true}",
        (
            "vllmArgs.no-enable-log-requests: sets --enable-log-requests a second time, after "
            "vllmArgs.enable-log-requests. The last one would win. Keep one.",
        ),
    ),
    Example(
        "a flag with a value of the wrong kind",
        "gemma4:vllmArgs: {max-log-len: many}",
        (f'vllmArgs.max-log-len: "many" is not a whole number. {NO_FLAG} Write a value like 16.',),
    ),
    Example(
        "a token in clear",
        f"gemma4:hfToken: {TOKEN}",
        (f"hfToken: is written in clear. {IN_CLEAR} {SET_TOKEN}",),
    ),
    Example(
        "a token for the name of a secret",
        f"gemma4:hfTokenSecret: {TOKEN}",
        (f"hfTokenSecret: holds a token itself, not the name of a secret. {IN_CLEAR} {SET_TOKEN}",),
    ),
    Example(
        "a token in the environment",
        f"gemma4:serving: {{env: {{MY_ACCESS: {TOKEN}}}}}",
        (f"serving.env.MY_ACCESS: holds a token. {IN_CLEAR} {SET_TOKEN}",),
    ),
    Example(
        "a secret in the environment",
        "gemma4:serving: {env: {VLLM_API_KEY: abc}}",
        (
            f"serving.env.VLLM_API_KEY: is a secret by its name. {IN_CLEAR} Use hfToken or hfTokenSecret for Hugging "
            "Face; callers are let in with access.invokers.",
        ),
    ),
    Example(
        "a Docker Hub account without its token",
        "gemma4:images: {dockerHubUser: my-company}",
        (
            "images.dockerHubSecret: is missing beside images.dockerHubUser. Docker Hub takes an account and its token "
            "together. Write both, or neither.",
        ),
    ),
    Example(
        "a Docker Hub account for a build",
        "gemma4:images: {mode: build, dockerHubUser: my-company, dockerHubSecret: docker-hub-token}",
        (
            "images.dockerHubUser: is set with images.mode: build. There is no mirror, so nobody would use it. Take both "
            "out, and run `docker login` before `pulumi up`.",
        ),
    ),
    Example(
        "a Docker Hub token for the name of a secret",
        "gemma4:images: {dockerHubUser: my-company, dockerHubSecret: dckr_pat_0123456789abcdefghij}",
        (
            f"images.dockerHubSecret: holds a token itself. {IN_CLEAR} Take it out, revoke it, and put a new one into "
            "Secret Manager: gcloud secrets create docker-hub-token --data-file=-",
        ),
    ),
    Example(
        "a time to settle that is none",
        "gemma4:access: {settleTime: 1h}",
        ("access.settleTime: '1h' is too long; write 15m or less.",),
    ),
    Example(
        "two tokens",
        """
        gemma4:hfToken: {secure: AAABAJ}
        gemma4:hfTokenSecret: hf-token
        """,
        (
            "hfTokenSecret: is set together with hfToken. Two sources of one token would contradict each other. "
            "Keep one of the two.",
        ),
    ),
    Example(
        "a bucket that is not named",
        "gemma4:weights: {source: existing}",
        (
            "weights.bucket: is missing with weights.source: existing. There is no bucket to read. "
            "Write weights.bucket: my-bucket.",
        ),
    ),
    Example(
        "another program's namespace",
        "gemma:model: gemma-4-31b-it",
        ("gemma:model: no such namespace 'gemma'. It would have no effect. Write gemma4:model.",),
    ),
    Example(
        "a key with and without its namespace",
        "model: gemma-4-31b-it",
        ("gemma4:model: is written twice, once without its namespace. One would win. Keep one.",),
    ),
    Example(
        "a key twice",
        "gemma4:model: gemma-4-31b-it",
        (
            "Pulumi.mine.yaml line 4: is not readable YAML: the key 'gemma4:model' is written twice. "
            "None of the file counts. Mend the line and run again.",
        ),
    ),
    Example(
        "a bracket left open",
        "gemma4:tpu: {slices: [blue}",
        (
            "Pulumi.mine.yaml line 4: is not readable YAML: did not find expected ',' or ']'. "
            "None of the file counts. Mend the line and run again.",
        ),
    ),
    Example(
        "a date that is none",
        "gemma4:weights: {revision: 2026-99-99}",
        (
            "Pulumi.mine.yaml: is not readable YAML: month must be in 1..12. "
            "None of the file counts. Mend the line and run again.",
        ),
    ),
    Example(
        "hosts that are none",
        """
        gemma4:serving:
          allowedMediaDomains: [https://a.example.com, "*.example.com", 10.0.0.1, localhost, A.example.com, a.example.com]
        """,
        tuple(
            f"serving.allowedMediaDomains[{place}]: '{host}' has the wrong form; write it like images.example.com."
            for place, host in enumerate(
                ("https://a.example.com", "*.example.com", "10.0.0.1", "localhost", "A.example.com")
            )
        ),
    ),
    Example(
        "a number of image tokens that vLLM does not know",
        "gemma4:serving: {visionTokens: 99}",
        ("serving.visionTokens: 99 is not one of 70, 140, 280, 560, 1120.",),
    ),
    Example(
        "image tokens past the setting",
        "gemma4:vllmArgs: {mm-processor-kwargs: {images_kwargs: {max_soft_tokens: 99}}}",
        (
            "vllmArgs.mm-processor-kwargs: max_soft_tokens is decided by serving.visionTokens. vLLM would stop at a number "
            "that it does not know, and the plan would not count it. Write serving.visionTokens instead: 70, 140, 280, 560 "
            "or 1120.",
        ),
    ),
    Example(
        "image tokens past the setting, with a dot",
        "gemma4:vllmArgs: {mm_processor_kwargs.max_soft_tokens: 280}",
        (
            "vllmArgs.mm_processor_kwargs.max_soft_tokens: max_soft_tokens is decided by serving.visionTokens. vLLM would "
            "stop at a number that it does not know, and the plan would not count it. Write serving.visionTokens instead: "
            "70, 140, 280, 560 or 1120.",
        ),
    ),
    Example(
        "the image processor told twice",
        """
        gemma4:serving: {visionTokens: 560}
        gemma4:vllmArgs: {mm-processor-kwargs: {do_resize: true}}
        """,
        (
            "vllmArgs.mm-processor-kwargs: stands beside serving.visionTokens. The flag would stand twice; the last one "
            "would win. Keep one of the two.",
        ),
    ),
    Example(
        "several at once",
        """
        gemma4:regoin: us-east4
        gemma4:serving: {maxModelLen: 1, gpuMemoryUtilization: 7}
        gemma4:scaling: {cpu: many}
        """,
        (
            "regoin: no such setting. It would have no effect. Did you mean region?",
            "model: 'gemma-4-31-it' is not in the catalog. It cannot be planned. Did you mean gemma-4-31b-it?",
            "serving.maxModelLen: 1 is too small: at least 256. Write for example serving.maxModelLen: 16384.",
            "serving.gpuMemoryUtilization: 7 is too large: at most 0.99. "
            "Write for example serving.gpuMemoryUtilization: 0.9.",
            "scaling.cpu: 'many' is not a whole number. Write for example scaling.cpu: 8.",
        ),
        model="gemma-4-31-it",
    ),
)

REFUSED = (
    Example(
        "a region without the GPU",
        "gemma4:region: europe-north1",
        (
            "region: europe-north1 is not known to offer 1x NVIDIA L4 on Cloud Run. The deployment would be refused after "
            "images and weights are in place. Write one of: us-east4, asia-southeast1, europe-west1, europe-west4.",
        ),
    ),
    Example(
        "a zone without the slice",
        "gemma4:tpu: {zone: us-west1-a}",
        (
            "tpu.zone: us-west1-a is not known to offer TPU v6e, 4 chips. The deployment would be refused after images and "
            "weights are in place. Write one of: us-east5-a, us-east5-b, europe-west4-a, asia-northeast1-b, "
            "southamerica-west1-a.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "flex-start in a zone that refuses it",
        "gemma4:tpu: {zone: us-south1-a}",
        (
            "tpu.zone: Google was seen to refuse flex-start requests for TPU v6e in us-south1-a. The TPU API would refuse "
            "this one too. Write one of: us-east5-a, us-east5-b, europe-west4-a, asia-northeast1-b, southamerica-west1-a, "
            "or another tpu.provisioning.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a run of eight days",
        "gemma4:tpu: {maxRunDuration: 8d}",
        (
            "tpu.maxRunDuration: 8d is outside what flex-start takes: 10m to 7d. The TPU API would refuse the request. "
            "Write at most 7d and let the next slice queue before the first ends, or use tpu.provisioning: on-demand.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "finer images on TPU",
        "gemma4:serving: {visionTokens: 560}",
        (
            "serving.visionTokens: vLLM on TPU makes at most 280 tokens of an image, whatever is set. The prompt would have "
            "room for more than the encoder gives, and image requests would fail. Write 280 or less, or serve on a GPU.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "an image larger than a step",
        "gemma4:serving: {visionTokens: 1120, maxNumBatchedTokens: 1024}",
        (
            "serving.maxNumBatchedTokens: 1,024 is less than the 1,120 tokens of one image, which cannot be split here. "
            "vLLM would refuse to start. Write at least 1120, or serving.modalities.image: 0.",
        ),
    ),
    Example(
        "vLLM's own way to choose the driver library",
        "gemma4:serving: {env: {VLLM_ENABLE_CUDA_COMPATIBILITY: '0'}}",
        (
            "serving.env.VLLM_ENABLE_CUDA_COMPATIBILITY: is overruled by serving.cudaCompatibility, which decides when the "
            "container starts. It would have no effect. Take it out, and write serving.cudaCompatibility: always or never "
            "where auto is wrong.",
        ),
    ),
    Example(
        "the tools template of another image",
        "gemma4:serving: {chatTemplate: tools}",
        (
            "serving.chatTemplate: tools stands for a file of vLLM's GPU image; where its TPU image holds one is not "
            "known. vLLM would stop where the file is not there. Leave it out, for the checkpoint's own template, or write "
            "the file's whole path.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a run that ends before it serves",
        "gemma4:tpu: {maxRunDuration: 10m}",
        (
            "tpu.maxRunDuration: 10m is not longer than the start, which takes about …. The slice would be paid for and end "
            "before it serves. Write at least …, or leave it out.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a range that Docker has on the slices",
        "gemma4:network: {subnetCidr: 172.16.0.0/16}",
        (
            "network.subnetCidr: 172.17.0.0/16, which Docker on the slices takes for itself, overlaps 172.16.0.0/16 or the "
            "slices' own range beside it, 172.17.0.0/16. A slice could not answer the gateway. Write for example 10.8.0.0/26.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a range beside which there is none for the slices",
        "gemma4:network: {subnetCidr: 192.168.0.0/16}",
        (
            "network.subnetCidr: the slices get the range beside it, 192.169.0.0/16, which is not private. What lives there "
            "on the internet could not be reached. Write for example 10.8.0.0/26.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a request to a slice longer than Cloud Run allows",
        "gemma4:scaling: {requestTimeout: 2h}",
        ("scaling.requestTimeout: 7200 s is over Cloud Run's 3600 s. The deployment would be rejected. Write 60m.",),
        MOE,
        "v6e-4",
    ),
    Example(
        "a probe over the cap",
        "gemma4:probes: {startup: {periodSeconds: 60, failureThreshold: 60}}",
        (
            "probes.startup.failureThreshold: 60 x periodSeconds 60 = 3,600 s is over Cloud Run's cap of 1,800 s with a "
            "GPU. The deployment would be rejected. Write at most 30 at this period, or leave failureThreshold out.",
        ),
    ),
    Example(
        "a probe shorter than the start",
        "gemma4:probes: {startup: {periodSeconds: 5, failureThreshold: 4}}",
        (
            "probes.startup: the probe gives up after 20 s, the start takes at least …. Cloud Run would stop the container "
            "while it still loads, at every start. Leave probes.startup out: the window then fills Cloud Run's cap. "
            "serving.enforceEager: true skips about … of compiling and slows down decoding.",
        ),
    ),
    Example(
        "more CPU than the GPU's instance has",
        "gemma4:scaling: {cpu: 16}",
        (
            "scaling.cpu: 16 vCPU is outside what Cloud Run takes with this GPU: 4 to 8. The deployment would be refused. "
            "Write 4 to 8, or leave it out.",
        ),
    ),
    Example(
        "more memory than the GPU's instance has",
        "gemma4:scaling: {memoryGib: 64}",
        (
            "scaling.memoryGib: 64 GiB is outside what Cloud Run takes with this GPU: 16 to 32. The deployment would be "
            "refused. Write 16 to 32, or leave it out.",
        ),
    ),
    Example(
        "a CPU count between two that exist",
        "gemma4:scaling: {cpu: 7}",
        ("scaling.cpu: Cloud Run has no 7 vCPU. The deployment would be refused. Write one of: 4, 6, 8.",),
    ),
    Example(
        "fewer instances at most than at least",
        "gemma4:scaling: {minInstances: 3, maxInstances: 2}",
        (
            "scaling.minInstances: 3 is more than scaling.maxInstances 2. The deployment would be refused. "
            "Raise maxInstances or lower minInstances.",
        ),
    ),
    Example(
        "a request longer than Cloud Run allows",
        "gemma4:scaling: {requestTimeout: 2h}",
        ("scaling.requestTimeout: 7200 s is over Cloud Run's 3600 s. The deployment would be rejected. Write 60m.",),
    ),
    Example(
        "a bucket streamed by what cannot",
        """
        gemma4:serving: {loadFormat: safetensors}
        gemma4:weights: {access: stream}
        """,
        (
            "serving.loadFormat: safetensors cannot read gs://, where weights.access: stream leaves the weights. "
            "The server would find no weights. Leave it out, or write weights.access: mount.",
        ),
    ),
    Example(
        "audio on a model without an audio tower",
        "gemma4:serving: {modalities: {audio: 1}}",
        (
            "serving.modalities.audio: the model has no audio tower. The server would answer 400 to every audio request. "
            "Write 0, or use E2B, E4B or 12B.",
        ),
        BF16_31B,
        "rtx-pro-6000",
    ),
    Example(
        "audio on TPU",
        "gemma4:serving: {modalities: {audio: 1}}",
        (
            "serving.modalities.audio: vLLM on TPU skips the audio tower. An audio request would be an error. "
            "Write 0, or serve on a GPU.",
        ),
        "gemma-4-e4b-it",
        "v6e-1",
    ),
    Example(
        "n-gram speculation with asynchronous scheduling",
        "gemma4:serving: {asyncScheduling: true, speculation: {method: ngram}}",
        (
            "serving.asyncScheduling: cannot be on with ngram speculation. vLLM would refuse to start. "
            "Leave serving.asyncScheduling out, or use serving.speculation.method: mtp.",
        ),
    ),
    Example(
        "int4 weights on TPU",
        "",
        (
            "model: gemma-4-31b-it-qat-w4a16 holds int4 weights (compressed-tensors), which vLLM on TPU cannot load. "
            "It would stop while loading, on a slice that is already paid for. Use gemma-4-31b-it, or a GPU.",
        ),
        QAT_31B,
        "v6e-4",
    ),
    Example(
        "31B on an L4 without offload",
        "gemma4:serving: {cpuOffloadGb: 0, safetensorsLoadStrategy: null}",
        (
            "serving.cpuOffloadGb: loading takes … of a device for a moment, because the output embedding exists twice "
            "until it is tied (… of weights); there are 22.0 GiB. vLLM would run out of memory while it builds the model, "
            "after about … paid minutes, whatever the utilization. What fits: …accelerator: rtx-pro-6000; …",
        ),
        QAT_31B,
        "l4",
    ),
    Example(
        "quantising what is quantised",
        "gemma4:serving: {quantization: fp8}",
        (
            "serving.quantization: fp8 does not apply: the checkpoint is quantised already. vLLM would refuse to start. "
            "Leave it out.",
        ),
    ),
    Example(
        "more devices than there are",
        "gemma4:serving: {tensorParallelSize: 2}",
        (
            "serving.tensorParallelSize: 2 is more than the 1 device(s) of l4. vLLM would find no such device. "
            "Write 1, or leave it out.",
        ),
    ),
    Example(
        "a longer context than the model has positions",
        "gemma4:serving: {maxModelLen: 300000}",
        (
            "serving.maxModelLen: 300,000 is more than the model's 262,144 positions. vLLM would refuse to start. "
            "Write at most 262144.",
        ),
    ),
    Example(
        "a workload longer than the context",
        "gemma4:workload: {promptTokens: 10000}",
        (
            "workload: prompt and answer together are 10,256 tokens, more than serving.maxModelLen 8,192. The server would "
            "answer 400 to every such request. Raise serving.maxModelLen or lower workload.",
        ),
    ),
    Example(
        "a video that one step cannot take",
        "gemma4:serving: {maxNumBatchedTokens: 1024, modalities: {video: 1}}",
        (
            "serving.maxNumBatchedTokens: 1,024 is less than the 2,496 tokens of one video, which cannot be split here. "
            "vLLM would refuse to start. Write at least 2496, or serving.modalities.video: 0.",
        ),
    ),
    Example(
        "an image older than the model",
        "gemma4:images: {serving: 'vllm/vllm-openai:v0.10.0'}",
        (
            "images.serving: vLLM 0.10.0 does not know gemma-4-12b-it-qat-w4a16; … is the first that does. "
            "It would stop at the model's configuration. Leave it out, or name a later image.",
        ),
    ),
    Example(
        "pinning asked for, nothing pinned",
        "gemma4:images: {requirePinned: true}",
        (
            "images.requirePinned: is set, and these are not pinned: image vllm/vllm-openai:v0.32.0, image "
            "gcr.io/google.com/cloudsdktool/google-cloud-cli:slim, weights google/gemma-4-12B-it-qat-w4a16-ct@main. What is "
            "deployed could change unseen. Run gemma4 pin online and commit the lock file, or take images.requirePinned "
            "out.",
        ),
    ),
)

WARNED = (
    Example(
        "a region by invitation",
        "gemma4:region: us-central1",
        (
            "region: us-central1 offers 1x NVIDIA L4 on Cloud Run by invitation only. Without one the deployment is "
            "refused. Safer: us-east4, asia-southeast1, europe-west1, europe-west4.",
        ),
    ),
    Example(
        "fewer requests let in than run at once",
        """
        gemma4:serving: {maxNumSeqs: 16}
        gemma4:scaling: {concurrency: 2}
        """,
        ("scaling.concurrency: 2 is less than serving.maxNumSeqs 16. The batch can never fill. Write at least 16.",),
    ),
    Example(
        "far more requests let in than run at once",
        """
        gemma4:serving: {maxNumSeqs: 4}
        gemma4:scaling: {concurrency: 200}
        """,
        (
            "scaling.concurrency: 200 is far above serving.maxNumSeqs 4. Requests would queue inside the server. Write "
            "about 8, so that Cloud Run starts another instance instead.",
        ),
    ),
    Example(
        "a run that has hardly begun when it ends",
        "gemma4:tpu: {maxRunDuration: 25m}",
        (
            "tpu.maxRunDuration: 25m is less than twice the start, which takes about …. Most of what is paid for would be "
            "spent on starting. Write at least ….",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a wait for what is no longer asked for",
        "gemma4:tpu: {validUntilDuration: 30m, waitForCapacity: 1h}",
        (
            "tpu.waitForCapacity: 1h is longer than tpu.validUntilDuration 30m. The request would have ended while up still "
            "waits. Write at most 30m, or raise tpu.validUntilDuration.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a request that may stand for weeks",
        "gemma4:tpu: {validUntilDuration: 14d}",
        (
            "tpu.validUntilDuration: 14d is more than 7d; how long Google lets a request stand is not documented. Whether it "
            "takes this one is unknown. Write at most 7d, which is no more certain, or try it: a refusal costs nothing.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "an end for what has none",
        "gemma4:tpu: {provisioning: on-demand, maxRunDuration: 4h}",
        (
            "tpu.maxRunDuration: has no effect with tpu.provisioning: on-demand. The slice would run, and be paid for, until "
            "it is deleted. Take it out, or use tpu.provisioning: flex-start.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "settings of another platform on TPU",
        """
        gemma4:scaling: {minInstances: 1, cpu: 8}
        gemma4:probes: {startup: {periodSeconds: 5}}
        gemma4:weights: {access: stream}
        """,
        (
            "scaling.minInstances: has no effect on a TPU slice: tpu.slices says how many there are. Nothing follows from "
            "it. Take it out.",
            "scaling.cpu: has no effect on a TPU slice: the machine belongs to the chips. Nothing follows from it. "
            "Take it out.",
            "probes.startup.periodSeconds: has no effect on a TPU slice: the supervisor on the machine probes. Nothing "
            "follows from it. Take it out.",
            "weights.access: has no effect on a TPU slice: the weights are copied into memory. Nothing follows from it. "
            "Take it out.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "flex-start in a zone where nobody was seen to ask",
        "gemma4:tpu: {zone: us-east1-d}",
        (
            "tpu.zone: whether us-east1-d takes flex-start requests is not known: nobody was seen to ask. If it does not, "
            "the TPU API says so within seconds, and no slice is paid for. Seen to take them: us-east5-a, us-east5-b, "
            "europe-west4-a, asia-northeast1-b, southamerica-west1-a.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "folders of libraries of one's own",
        "gemma4:serving: {env: {LD_LIBRARY_PATH: /opt/lib}}",
        (
            "serving.env.LD_LIBRARY_PATH: comes behind the folder that serving.cudaCompatibility puts first. A libcuda.so.1 "
            "of your own would not be found. Leave it if it holds other libraries; for that one, lay it into the image's "
            "/usr/local/cuda/compat.",
        ),
    ),
    Example(
        "hosts to fetch from without a way out",
        "gemma4:serving: {allowedMediaDomains: [images.example.com]}",
        (
            "serving.allowedMediaDomains: the server has no way out to the internet while its weights come from a bucket. "
            "Fetching from these hosts would fail after a wait. Let requests carry media as data: URLs, or write "
            "weights.source: huggingface, which opens a way out.",
        ),
    ),
    Example(
        "CUDA on TPU",
        "gemma4:serving: {cudaCompatibility: never}",
        (
            "serving.cudaCompatibility: has no effect on a TPU slice: there is no CUDA. Nothing follows from it. Take it "
            "out.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "settings of another platform on a GPU",
        "gemma4:tpu: {zone: us-east5-a}",
        ("tpu.zone: has no effect on Cloud Run: there are no slices. Nothing follows from it. Take it out.",),
    ),
    Example(
        "no compilation before the first request",
        "gemma4:serving: {enforceEager: true}",
        (
            "serving.enforceEager: on TPU it only puts the compilation off. The first requests of each size would wait for "
            "it, minutes each, and the predicted start does not follow it. Take it out.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "far more requests let in than a slice runs",
        """
        gemma4:serving: {maxNumSeqs: 4}
        gemma4:scaling: {concurrency: 200}
        """,
        (
            "scaling.concurrency: 200 is far above serving.maxNumSeqs 4. Requests would queue inside the server. Write "
            "about 8, so that the gateway answers 429 instead.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "more slices than the gateway can fill",
        "gemma4:tpu: {slices: [blue, green, red, white]}",
        (
            "scaling.concurrency: 225 requests are in flight for each of 4 slice(s), less than serving.maxNumSeqs 256. The "
            "batch can never fill. Write serving.maxNumSeqs: 225, or use fewer slices.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "fewer requests let in than a slice runs",
        "gemma4:scaling: {concurrency: 64}",
        (
            "scaling.concurrency: 64 requests are in flight for each of 1 slice(s), less than serving.maxNumSeqs 256. The "
            "batch can never fill. Write scaling.concurrency: 256.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "more requests let in than the gateway takes",
        "gemma4:tpu: {slices: [blue, green]}\ngemma4:scaling: {concurrency: 600}",
        (
            "scaling.concurrency: 600 for each of 2 slices is more than the 900 that the gateway admits in all. The gateway "
            "would answer 429 earlier. Write at most 450.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a region that the catalog has not heard of",
        "gemma4:region: us-eats5",
        (
            "region: us-eats5 is in no row of the catalog, so whether Cloud Run is there was not checked. If it is not, the "
            "gateway's deployment is refused. Leave it out for us-east5, or look it up with: gcloud run regions list.",
        ),
        MOE,
        "v6e-4",
    ),
    Example(
        "a flag that the arithmetic does not follow",
        "gemma4:vllmArgs: {kv-cache-memory-bytes: 4G}",
        (
            "vllmArgs.kv-cache-memory-bytes: --kv-cache-memory-bytes changes memory or devices in ways that this plan does "
            "not follow. Capacity, speed and verdict are those without it. Measure before you rely on the numbers above.",
        ),
    ),
    Example(
        "a slice whose load nobody sees",
        "gemma4:vllmArgs: {disable-log-stats: true}",
        (
            "vllmArgs.disable-log-stats: the server would count nothing. Its metrics are empty: nothing shows its load, and "
            "the slice's supervisor starts a server afresh that is only loaded. Take it out.",
        ),
        MOE,
        "v6e-4",
    ),
)


@pytest.fixture
def gemma4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Command:
    """The command in an empty project folder."""
    write_stack(tmp_path, "", model=QAT_12B, accelerator="l4")
    monkeypatch.chdir(tmp_path)
    return command(capsys)


def written(example: Example) -> None:
    write_stack(Path.cwd(), example.body, model=example.model, accelerator=example.accelerator)


def same(said: str, expected: str) -> bool:
    """Whether a message is the expected one; `…` stands for any figure of an estimate."""
    return re.fullmatch("(.+?)".join(re.escape(part) for part in expected.split("…")), said) is not None


def title(value: Any) -> str | None:
    return value.title.replace(" ", "-") if isinstance(value, Example) else None


class TestAStackFileIsAnsweredWordForWord:
    @pytest.mark.parametrize("example", UNREADABLE, ids=title)
    def test_what_cannot_be_read_ends_with_2_and_plans_nothing(self, gemma4: Command, example: Example) -> None:
        written(example)
        answer = gemma4("plan", "mine")
        count = f", {len(example.said)} things to mend" if len(example.said) > 1 else ""
        lines = [f"bad settings{count}; nothing was planned or created:", *(f"  {said}" for said in example.said)]
        assert answer.err.splitlines() == lines
        assert (answer.code, answer.out) == (2, "")
        assert TOKEN not in answer.err

    @pytest.mark.parametrize("example", REFUSED, ids=title)
    def test_what_cannot_work_ends_with_3_and_is_planned_all_the_same(self, gemma4: Command, example: Example) -> None:
        written(example)
        answer = gemma4("plan", "mine", "--json", "--no-resources")
        said = answer.faults("refusals")
        assert len(said) == len(example.said)
        for one, expected in zip(said, example.said, strict=True):
            assert same(one, expected), one
        assert (answer.code, answer.data["verdict"], answer.data["deployable"]) == (3, "refused", False)

    @pytest.mark.parametrize("example", WARNED, ids=title)
    def test_what_may_work_ends_with_0_and_a_warning(self, gemma4: Command, example: Example) -> None:
        written(example)
        answer = gemma4("plan", "mine", "--json", "--no-resources")
        said = answer.faults("warnings")
        assert len(said) == len(example.said), said
        for one, expected in zip(said, example.said, strict=True):
            assert same(one, expected), one
        assert (answer.code, answer.data["refusals"]) == (0, [])


class TestEveryMessage:
    @pytest.mark.parametrize("example", [*REFUSED, *WARNED], ids=title)
    def test_has_a_key_that_exists_a_consequence_and_a_fix(self, gemma4: Command, example: Example) -> None:
        written(example)
        answer = gemma4("plan", "mine", "--json", "--no-resources")
        known = {path for path, _ in known_paths()}
        for fault in (*answer.data["refusals"], *answer.data["warnings"]):
            assert fault["key"] in known or fault["key"].startswith(("vllmArgs.", "serving.env."))
            assert all(fault[part].endswith((".", "…")) for part in ("fact", "consequence", "fix")), fault

    def test_stands_in_the_text_and_in_the_comment_as_well(self, gemma4: Command) -> None:
        write_stack(
            Path.cwd(), "gemma4:region: us-central1\ngemma4:scaling: {cpu: 16}", model=QAT_12B, accelerator="l4"
        )
        text, comment = (" ".join(gemma4("plan", "mine", *form).out.split()) for form in ([], ["--markdown"]))
        assert "Refused scaling.cpu: 16 vCPU is outside what Cloud Run takes with this GPU" in text
        assert "Warning region: us-central1 offers 1x NVIDIA L4 on Cloud Run by invitation only." in text
        assert "⛔ **scaling.cpu**: 16 vCPU is outside what Cloud Run takes with this GPU" in comment
        assert "⚠️ **region**: us-central1 offers 1x NVIDIA L4 on Cloud Run by invitation only." in comment

    def test_is_data_where_data_was_asked_for(self, gemma4: Command) -> None:
        write_stack(Path.cwd(), "gemma4:regoin: us-east4", model=QAT_12B, accelerator="l4")
        answer = gemma4("plan", "mine", "--json")
        assert (answer.code, answer.err, answer.data["verdict"]) == (2, "", "bad settings")
        assert answer.data["faults"] == [
            {
                "key": "regoin",
                "fact": "no such setting.",
                "consequence": "It would have no effect.",
                "fix": "Did you mean region?",
            }
        ]


HEAD = "bad settings; nothing was planned or created:\n  "
COMMAND_LINES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("plan", "l4x"), "stack: there is no stack file Pulumi.l4x.yaml in …. Did you mean l4?"),
    (("plan", "../mine"), "stack: there is no stack file Pulumi.../mine.yaml in …. Did you mean mine?"),
    (
        ("plan", "mine", "--set", "serving.maxModelLen"),
        "--set: 'serving.maxModelLen' is not key=value. Write for example --set serving.maxModelLen=4096.",
    ),
    (
        ("plan", "mine", "--set", "access.invokers=[a"),
        "access.invokers: '[a' is not a YAML value. Quote it, for example --set 'access.invokers=[\"group:a@b.c\"]'.",
    ),
    (
        ("plan", "mine", "--set", "serving.maxModelLen=4096", "--set", "serving.maxModelLen.tokens=1"),
        "serving.maxModelLen: takes one value, not a group. Write serving.maxModelLen: 16384.",
    ),
    (("plan", "mine", "--set", f"hfToken={TOKEN}"), f"hfToken: is written in clear. {IN_CLEAR} {SET_TOKEN}"),
    (
        ("plan", "mine", "--set", "hfToken=null", "--set", "model=gemma-5"),
        "model: 'gemma-5' is not in the catalog. It cannot be planned. …",
    ),
    (
        ("plan", "mine", "--diff", "Pulumi.yaml"),
        "--diff: Pulumi.yaml is not a plan. There is nothing to compare with. "
        "Write one with: gemma4 plan STACK --json > plan.json",
    ),
    (("plan", "mine", "--diff", "big"), "stack: there is no stack file Pulumi.big.yaml in …. Stacks here: l4, mine."),
    (
        ("plan", "mine", "--diff", "old.json"),
        "--diff: old.json has schema 0, this program writes 1. The numbers might not mean the same. "
        "Write it anew with --json.",
    ),
    (("explain", "serving.maxModellen"), "serving.maxModellen: no such setting. Did you mean serving.maxModelLen?"),
    (("explain", "banana"), "banana: no such setting. List them all with: gemma4 explain"),
    (
        ("recommend", "--model", "llama"),
        f"--model: no model of the catalog has 'llama' in its id. Known: {MODELS}.",
    ),
    (
        ("recommend", "--context", "512"),
        "--context: 512 is less than prompt and answer together, 1,280. "
        "Raise it, or lower --prompt-tokens and --output-tokens.",
    ),
)


class TestACommandLineIsAnsweredWordForWord:
    @pytest.mark.parametrize(
        ("words", "said"), COMMAND_LINES, ids=lambda value: "_".join(value)[:40] if isinstance(value, tuple) else ""
    )
    def test_what_cannot_be_read_ends_with_2(self, gemma4: Command, words: tuple[str, ...], said: str) -> None:
        write_stack(Path.cwd(), "", name="l4", model=QAT_12B, accelerator="l4")
        Path("old.json").write_text('{"schema": 0, "stack": "x", "verdict": "fits", "vllm": {}}', "utf-8")
        answer = gemma4(*words)
        head = HEAD if words[0] == "plan" else "bad input; nothing was done:\n  "
        assert same(answer.err.rstrip(), head + said), answer.err
        assert (answer.code, answer.out) == (2, "")
        assert TOKEN not in answer.err

    @pytest.mark.parametrize("words", [("frob",), ("plan",), ("plan", "mine", "--frob"), ("recommend", "--users", "0")])
    def test_what_is_no_command_ends_with_2_and_points_at_the_help(self, gemma4: Command, words: list[str]) -> None:
        answer = gemma4(*words)
        assert answer.code == 2
        assert "-h' for help" in answer.err

    def test_two_forms_at_once_are_refused(self, gemma4: Command) -> None:
        answer = gemma4("plan", "mine", "--json", "--markdown")
        assert (answer.code, answer.data["error"]) == (
            2,
            "--markdown: cannot be combined with --json. Choose one of them.",
        )

    def test_a_need_that_nothing_meets_ends_with_3_and_says_why(self, gemma4: Command) -> None:
        answer = gemma4("recommend", "--model", "31b", "--max-usd-per-hour", "0.1")
        assert answer.code == 3
        head, _, reasons = answer.out.rstrip("\n").partition(": ")
        assert head == "nothing in the catalog meets this need"
        assert all(re.match(r"\d+ [a-z]", reason) for reason in reasons.split(", "))
        assert re.search(r"too dear \(the cheapest is \$1\.42/h: gemma-4-31b-it-qat-w4a16 on l4\)", reasons)


class TestAFileThatIsNone:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "model: is missing."),
            (b"- a\n", "Pulumi.mine.yaml: holds no keys. Nothing would be set. A stack file begins with `config:`."),
            (b"config: 7\n", "Pulumi.mine.yaml: `config` is not a group of keys. Nothing would be set."),
            (b"\xff\xfe\x00", "Pulumi.mine.yaml: is not readable YAML: 'utf-8' codec can't decode byte 0xff"),
            (b"config: {[a]: b}\n", "Pulumi.mine.yaml line 1: is not readable YAML: a key is a list or a group."),
            (
                b"config: {a: &x [*x]}\n",
                "Pulumi.mine.yaml line 1: is not readable YAML: found unconstructable recursive node.",
            ),
            *(
                (
                    f"config: {{a: {tagged}}}\n".encode(),
                    "Pulumi.mine.yaml: is not readable YAML: a tag such as !!bool or !!timestamp stands before what is none.",
                )
                for tagged in ("!!bool x", "!!timestamp x", "!!int ''")
            ),
            (b"config: !!python/object:os.system {}\n", "Pulumi.mine.yaml line 1: is not readable YAML: could not"),
        ],
    )
    def test_is_answered_in_a_line(self, gemma4: Command, content: bytes, said: str) -> None:
        Path("Pulumi.mine.yaml").write_bytes(content)
        answer = gemma4("plan", "mine")
        assert said in answer.err
        assert answer.code == 2

    def test_does_not_keep_the_list_of_stacks_from_its_readers(self, gemma4: Command) -> None:
        write_stack(Path.cwd(), "gemma4:regoin: x", name="broken", model=QAT_12B, accelerator="l4")
        answer = gemma4("stacks")
        assert answer.code == 0
        assert "regoin: no such setting." in answer.out
        assert QAT_12B in answer.out


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**7),
    st.floats(),
    st.dates(),
    st.text(max_size=6),
    st.sampled_from(["fp8", "auto", "mtp", "ngram", "7d", "0s", "none", "{", "-1", "1e3"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers(0, 2)), inner, max_size=3),
    ),
    max_leaves=4,
)
PATHS = st.sampled_from([path for path, _ in known_paths()])


class TestWhateverIsWritten:
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        pair=st.sampled_from([(QAT_12B, "l4"), (BF16_31B, "rtx-pro-6000"), (MOE, "v6e-4"), (BF16_31B, "g4-2")]),
        file=st.dictionaries(PATHS, VALUES, max_size=4),
        typed=st.dictionaries(PATHS, VALUES, max_size=1),
    )
    def test_is_planned_or_answered_in_our_own_words(
        self, pair: tuple[str, str], file: dict[str, Any], typed: dict[str, Any]
    ) -> None:
        tree: dict[str, Any] = {}
        for path, value in file.items():
            *groups, leaf = path.split(".")
            node = tree
            for group in groups:
                inner = node.setdefault(group, {})
                node = inner if isinstance(inner, dict) else node.update({group: {}}) or node[group]
            node[leaf] = value
        with suppress(Gemma4Error):
            make_plan("any", {**tree, "model": pair[0], "accelerator": pair[1]}, typed)


def test_the_examples_of_the_shipped_stacks_with_wrong_values_name_the_key(capsys: Capture) -> None:
    """The same words reach a shipped stack through --set, from any folder."""
    assert ROOT.joinpath("Pulumi.l4.yaml").is_file()
    answer = command(capsys)("plan", "l4", "--set", "serving.kvCacheDtype=fp9")
    assert answer.err.startswith(f"{HEAD}serving.kvCacheDtype: 'fp9' is not one of auto, bfloat16, float16, fp8")
