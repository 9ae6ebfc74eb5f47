"""The vLLM command: one flag or variable a decision, in a stable order, and a hash that follows what is served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from infra.catalog import catalog
from infra.catalog.flags import TABLES, flag_table
from infra.components.shared.machine_metadata import serving_spec
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.server.command import (
    HASH_PREFIX,
    Command,
    command_of,
)
from infra.planning.server.flag_owners import MANAGED_FLAGS
from infra.planning.server.hosting import SERVER_PORT
from infra.planning.server.implementations import CUDA
from infra.planning.server.user_flags import UNPLANNED_FLAGS
from infra.planning.settings.stackfile import read_stack, stack_names
from tests.commands import flags_of, planned_commands
from tests.projects import ROOT

L4 = {"model": "gemma-4-12b-it", "accelerator": "l4"}
RTX = {"model": "gemma-4-31b-it", "accelerator": "rtx-pro-6000"}
TPU = {"model": "gemma-4-31b-it", "accelerator": "v6e-4"}
G4 = {"model": "gemma-4-31b-it", "accelerator": "g4-2"}
CLOUD_RUN = [name for name, row in catalog().accelerators.items() if row.cloud_run]
LARGEST_TENSORS = {
    "e2b": 262144 * 35 * 256 * 2,
    "e4b": 262144 * 42 * 256 * 2,
    "12b": 262144 * 3840 * 2,
    "26b-a4b": 262144 * 2816 * 2,
    "31b": 262144 * 5376 * 2,
}
"""Bytes by architecture, from the shapes in the published configurations: embeddings of the layers, else of the tokens."""


def plan(base: Mapping[str, Any], **typed: Any) -> Plan:
    """The plan of a pair with dotted settings; `__` stands for the dot."""
    return make_plan("test", base, {path.replace("__", "."): value for path, value in typed.items()})


def flags(base: Mapping[str, Any], **typed: Any) -> dict[str, list[str]]:
    """The command's flags with their words."""
    found: dict[str, list[str]] = {}
    for word in plan(base, **typed).command.argv[3:]:
        if word.startswith("--"):
            assert word not in found, f"{word} stands twice"
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found


def every_stack() -> list[Plan]:
    return [make_plan(name, read_stack(ROOT, name).settings) for name in stack_names(ROOT)]


class TestEachDecisionIsSpelledOut:
    @pytest.mark.parametrize(
        ("setting", "value", "flag", "words"),
        [
            ("serving__maxModelLen", 4096, "--max-model-len", ["4096"]),
            ("serving__maxNumSeqs", 7, "--max-num-seqs", ["7"]),
            ("serving__maxNumBatchedTokens", 3000, "--max-num-batched-tokens", ["3000"]),
            ("serving__gpuMemoryUtilization", 0.85, "--gpu-memory-utilization", ["0.85"]),
            ("serving__kvCacheDtype", "fp8_e4m3", "--kv-cache-dtype", ["fp8_e4m3"]),
            ("serving__quantization", "fp8", "--quantization", ["fp8"]),
            ("serving__dtype", "float16", "--dtype", ["float16"]),
            ("serving__cpuOffloadGb", 5, "--cpu-offload-gb", ["5"]),
            ("serving__enforceEager", True, "--enforce-eager", []),
            ("serving__blockSize", 32, "--block-size", ["32"]),
            ("serving__prefixCaching", True, "--enable-prefix-caching", []),
            ("serving__prefixCaching", False, "--no-enable-prefix-caching", []),
            ("serving__asyncScheduling", False, "--no-async-scheduling", []),
            ("serving__chunkedMultimodalInput", False, "--disable-chunked-mm-input", []),
            ("serving__chatTemplate", "/templates/a.jinja", "--chat-template", ["/templates/a.jinja"]),
            ("serving__chatTemplate", "tools", "--chat-template", [CUDA.tools_template]),
            ("serving__loadFormat", "safetensors", "--load-format", ["safetensors"]),
            ("serving__safetensorsLoadStrategy", "prefetch", "--safetensors-load-strategy", ["prefetch"]),
            ("serving__tools", True, "--tool-call-parser", ["gemma4"]),
            ("serving__reasoning", True, "--reasoning-parser", ["gemma4"]),
        ],
    )
    def test_a_setting_becomes_its_flag(self, setting: str, value: Any, flag: str, words: list[str]) -> None:
        assert flags(RTX, **{setting: value})[flag] == words

    @pytest.mark.parametrize(
        ("setting", "value", "absent"),
        [
            ("serving__quantization", "none", "--quantization"),
            ("serving__cpuOffloadGb", 0, "--cpu-offload-gb"),
            ("serving__enforceEager", False, "--enforce-eager"),
            ("serving__tools", False, "--enable-auto-tool-choice"),
            ("serving__tools", False, "--tool-call-parser"),
            ("serving__reasoning", False, "--reasoning-parser"),
            ("serving__asyncScheduling", None, "--async-scheduling"),
            ("serving__chunkedMultimodalInput", True, "--disable-chunked-mm-input"),
        ],
    )
    def test_what_is_off_leaves_no_flag(self, setting: str, value: Any, absent: str) -> None:
        assert absent not in flags(RTX, **{setting: value})

    def test_modalities_become_limits(self) -> None:
        limits = flags(L4, serving__modalities__audio=2, serving__modalities__image=0)["--limit-mm-per-prompt"]
        assert [json.loads(word) for word in limits] == [{"image": 0, "audio": 2, "video": 0}]

    def test_nothing_is_fetched_for_a_caller_unless_its_host_is_named(self) -> None:
        """To vLLM an empty list would mean that every host is allowed, and a redirect leads past the list."""
        for base in (L4, RTX, TPU, G4):
            assert flags(base)["--allowed-media-domains"] == ["none.invalid"]
            assert plan(base).command.env["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"
        named = ["a.example.com", "b.example.org"]
        open_to_hosts = {"weights__source": "huggingface", "serving__allowedMediaDomains": named}
        assert flags(L4, **open_to_hosts)["--allowed-media-domains"] == named
        assert not plan(L4, **open_to_hosts).warnings

    def test_the_budget_of_an_image_reaches_the_processor_and_leaves_the_cache_alone(self) -> None:
        """vLLM profiles as many images as one step takes, so a larger one means fewer of them."""
        assert "--mm-processor-kwargs" not in flags(L4)
        finer = plan(L4, serving__visionTokens=1120)
        words = flags(L4, serving__visionTokens=1120)["--mm-processor-kwargs"]
        assert json.loads(words[0]) == {"max_soft_tokens": 1120}
        assert finer.memory == plan(L4).memory
        assert [note for note in finer.notes if note.startswith("An image takes up to 1,120 prompt tokens")]

    def test_speculation_becomes_one_object_with_the_assistants_place(self) -> None:
        assert "--speculative-config" not in flags(L4)
        ngram = json.loads(flags(L4, serving__speculation__method="ngram")["--speculative-config"][0])
        assert ngram == {"method": "ngram", "num_speculative_tokens": 3}
        drafted = plan(L4, serving__speculation__method="mtp", serving__speculation__tokens=2)
        mtp = json.loads(drafted.command.argv[drafted.command.argv.index("--speculative-config") + 1])
        assert mtp["num_speculative_tokens"] == 2
        assert mtp["model"] == f"/mnt/weights/{drafted.weights[1].prefix}"

    def test_an_image_is_not_split_on_tpu(self) -> None:
        assert "--disable-chunked-mm-input" in flags(TPU, serving__chunkedMultimodalInput=None)
        assert "--disable-chunked-mm-input" not in flags(RTX)

    def test_the_devices_share_the_model(self) -> None:
        assert flags(G4)["--tensor-parallel-size"] == ["2"]
        assert flags(G4, serving__tensorParallelSize=1)["--tensor-parallel-size"] == ["1"]
        assert flags(TPU)["--tensor-parallel-size"] == ["4"]

    def test_further_flags_come_as_the_parser_wants_them(self) -> None:
        args = {
            "max-log-len": 100,
            "enable-log-requests": True,
            "enable_chunked_prefill": False,
            "structured-outputs-config": {"backend": "xgrammar"},
            "allowed-origins": ["https://a.example"],
            "middleware": "a.b",
        }
        found = flags({**L4, "vllmArgs": args})
        assert found["--max-log-len"] == ["100"]
        assert found["--enable-log-requests"] == []
        assert found["--no-enable-chunked-prefill"] == []
        assert json.loads(found["--structured-outputs-config"][0]) == {"backend": "xgrammar"}
        assert found["--allowed-origins"] == ['["https://a.example"]']


class TestAServerIsStoppedInOrder:
    """The printed command is the one that runs: nothing is added to it on the machine."""

    def test_on_a_slice_requests_get_half_a_minute(self) -> None:
        assert flags(TPU)["--shutdown-timeout"] == ["30"]
        assert "--shutdown-timeout" not in flags(L4)

    def test_for_as_long_as_the_user_says(self) -> None:
        assert flags(TPU, vllmArgs={"shutdown-timeout": 90})["--shutdown-timeout"] == ["90"]

    @pytest.mark.parametrize(
        ("typed", "drain_s"), [({}, 45), ({"shutdown-timeout": 90}, 105), ({"shutdown_timeout": 5}, 20)]
    )
    def test_and_docker_waits_longer_than_vllm(self, typed: Mapping[str, int], drain_s: int) -> None:
        text = serving_spec(plan(TPU, vllmArgs=typed), image="i", token_secret=None)
        assert json.loads(text)["drainSeconds"] == drain_s

    def test_with_all_of_the_machine_only_where_the_user_says_so(self) -> None:
        for typed in ({}, {"tpu__privileged": True}):
            spec = json.loads(serving_spec(plan(TPU, **typed), image="i", token_secret=None))
            assert spec.get("privileged", False) is bool(typed)


class TestTheServerFindsItsWeights:
    def test_on_the_mount_in_the_bucket_or_in_memory(self) -> None:
        prefix = plan(L4).weights[0].prefix
        assert plan(L4).command.argv[2] == f"/mnt/weights/{prefix}"
        assert plan(TPU).command.argv[2] == f"/dev/shm/weights/{plan(TPU).weights[0].prefix}"
        streamed = plan(L4, weights__access="stream", weights__bucket="my-bucket")
        assert streamed.command.argv[2] == f"gs://my-bucket/{prefix}"

    def test_at_hugging_face_with_the_revision_as_a_flag(self) -> None:
        downloaded = plan(L4, weights__source="huggingface", weights__revision="0abc")
        assert downloaded.command.argv[2] == "google/gemma-4-12B-it"
        assert flags(L4, weights__source="huggingface", weights__revision="0abc")["--revision"] == ["0abc"]
        assert "HF_HUB_OFFLINE" not in downloaded.command.env
        assert "--load-format" not in downloaded.command.argv

    def test_a_drafter_that_is_downloaded_has_its_revision_too(self) -> None:
        for source, revision in (("huggingface", "main"), ("bucket", None)):
            words = plan(L4, weights__source=source, serving__speculation__method="mtp").command.argv
            drafting = json.loads(words[words.index("--speculative-config") + 1])
            assert drafting.get("revision") == revision

    def test_only_the_streamer_reads_from_the_bucket_itself(self) -> None:
        strategy = {"serving__safetensorsLoadStrategy": "lazy"}
        assert flags(L4, weights__access="stream", **strategy)["--load-format"] == ["runai_streamer"]
        assert "--load-format" not in flags(L4, weights__access="mount", **strategy)

    def test_offline_where_the_weights_are_staged(self) -> None:
        staged = plan(L4, weights__revision="0abc").command
        assert (staged.env["HF_HUB_OFFLINE"], staged.env["TRANSFORMERS_OFFLINE"]) == ("1", "1")
        assert staged.argv[2].endswith("/0abc")
        assert "--revision" not in staged.argv

    @pytest.mark.parametrize("model", catalog().models)
    @pytest.mark.parametrize("accelerator", CLOUD_RUN)
    def test_by_the_streamer_on_cloud_run_with_room_for_the_largest_tensor(self, model: str, accelerator: str) -> None:
        pair = {"model": model, "accelerator": accelerator, "serving": {"safetensorsLoadStrategy": None}}
        limit = json.loads(flags(pair)["--model-loader-extra-config"][0])["memory_limit"]
        assert flags(pair)["--load-format"] == ["runai_streamer"]
        assert isinstance(limit, int)  # vLLM refuses a float
        assert limit == max(4_000_000_000, LARGEST_TENSORS[catalog().model(model).architecture])

    def test_not_by_the_streamer_on_tpu(self) -> None:
        assert "--load-format" not in flags(TPU)


class TestTheEnvironment:
    def test_nothing_is_reported_to_anybody(self) -> None:
        for one in every_stack():
            assert one.command.env["VLLM_NO_USAGE_STATS"] == one.command.env["DO_NOT_TRACK"] == "1"

    def test_what_a_user_sets_comes_last(self) -> None:
        assert plan(L4, serving__env={"HF_HOME": "/cache"}).command.env["HF_HOME"] == "/cache"

    def test_expandable_segments_are_not_together_with_vllms_own_all_reduce_which_they_end(self) -> None:
        one, two = plan(L4), plan(G4)
        assert (one.server.tensor_parallel, two.server.tensor_parallel) == (1, 2)
        assert "PYTORCH_CUDA_ALLOC_CONF" in one.command.env
        assert "PYTORCH_CUDA_ALLOC_CONF" not in two.command.env

    def test_vllm_is_never_told_to_choose_its_driver_library_by_itself(self) -> None:
        assert not [one.stack for one in every_stack() if "VLLM_ENABLE_CUDA_COMPATIBILITY" in one.command.env]

    @pytest.mark.parametrize(("folder", "base"), [("gpu", L4), ("tpu", TPU)])
    @pytest.mark.parametrize("source", ["bucket", "huggingface"])
    def test_an_image_that_we_build_sets_nothing_that_a_plan_leaves_unset(
        self, folder: str, base: Mapping[str, Any], source: str
    ) -> None:
        """Else an image that is offline could not download where the server is to do so."""
        lines = (ROOT / "containers" / folder / "Dockerfile").read_text("utf-8").splitlines()
        words = " ".join(line.removeprefix("ENV ") for line in lines if line.startswith("ENV ")).split()
        baked = dict(word.split("=", 1) for word in words)
        assert baked
        assert baked.items() <= plan(base, weights__source=source).command.env.items()

    def test_no_shipped_stack_carries_a_secret(self) -> None:
        for one in every_stack():
            assert not [name for name in one.command.env if "TOKEN" in name or "KEY" in name]


class TestTheCommandIsOneThatVllmTakes:
    @pytest.mark.parametrize("version", TABLES)
    def test_the_flag_table_of_each_version_takes_every_stack_with_every_profile(self, version: str) -> None:
        table = flag_table(version)
        for name, argv in planned_commands():
            for flag, words in flags_of(argv):
                words = ["8000" if word == SERVER_PORT else word for word in words]
                value = words if len(words) > 1 else words[0] if words else True
                assert table.check(flag, value) == [], f"{name}: {flag} {value}"

    def test_the_flags_that_settings_own_and_those_not_followed_exist_by_their_main_spelling(self) -> None:
        names = set(flag_table().flags)
        assert set(MANAGED_FLAGS) <= names
        assert names >= UNPLANNED_FLAGS
        assert not UNPLANNED_FLAGS & set(MANAGED_FLAGS)

    def test_every_flag_that_we_write_is_owned(self) -> None:
        written = {
            flag_table().main_spelling(word)
            for one in (*every_stack(), plan(RTX, serving__enforceEager=True, serving__chatTemplate="/a"))
            for word in one.command.argv
            if word.startswith("--")
        }
        assert written - {"--shutdown-timeout"} <= set(MANAGED_FLAGS)  # that one gives way to `vllmArgs`

    def test_it_begins_and_ends_alike_everywhere(self) -> None:
        for one in every_stack():
            argv = one.command.argv
            assert argv[:2] == ("vllm", "serve")
            assert argv[-7:-4] == ("--served-model-name", one.model.hub_id, one.command.spec_hash)
            # On a TPU machine the server would be reachable on every network that the machine ever gets.
            host = "${VPC_ADDRESS}" if one.zone else "0.0.0.0"
            assert argv[-4:] == ("--host", host, "--port", one.server.hosting.port or "8000")


SERVED = [
    ("serving__maxModelLen", 4096),
    ("serving__maxNumSeqs", 5),
    ("serving__kvCacheDtype", "bfloat16"),
    ("serving__env", {"VLLM_LOGGING_LEVEL": "DEBUG"}),
    ("serving__tools", False),
    ("serving__cudaCompatibility", "never"),
    ("serving__visionTokens", 560),
    ("serving__allowedMediaDomains", ["images.example.com"]),
    ("serving__speculation__method", "ngram"),
    ("vllmArgs", {"max-log-len": 10}),
    ("weights__revision", "0abc"),
    ("weights__source", "huggingface"),
    ("weights__bucket", "another"),
    ("images__serving", "vllm/vllm-openai:v0.32.1"),
]
"""Settings of a 12B on an L4 that reach the server; the bucket does where its weights are streamed from it."""

NOT_SERVED = [
    ("region", "europe-west4"),
    ("workload__outputTokens", 512),
    ("scaling__maxInstances", 3),
    ("scaling__concurrency", 9),
    ("scaling__memoryGib", 24),
    ("probes__startup__periodSeconds", 5),
    ("access__invokers", ["group:ml@example.com"]),
    ("labels", {"team": "ml"}),
    ("deletionProtection", True),
    ("hfTokenSecret", "token"),
    ("weights__protect", True),
    ("serving__readyTimeout", "1h"),
    ("network__subnetCidr", "10.9.0.0/26"),
]


class TestTheHashNamesWhatIsServed:
    base: Mapping[str, Any] = {**L4, "serving": {"maxNumSeqs": 8}, "weights": {"access": "stream"}}

    @pytest.mark.parametrize(("setting", "value"), SERVED)
    def test_it_changes_with_everything_that_reaches_the_server(self, setting: str, value: Any) -> None:
        changed = plan(
            self.base, **{"weights__access": "mount" if value == "huggingface" else "stream", setting: value}
        )
        assert changed.command.spec_hash != plan(self.base).command.spec_hash

    @pytest.mark.parametrize(("setting", "value"), NOT_SERVED)
    def test_it_stays_with_everything_else(self, setting: str, value: Any) -> None:
        assert plan(self.base, **{setting: value}).command == plan(self.base).command

    def test_two_stacks_that_serve_the_same_have_the_same(self) -> None:
        assert make_plan("a", L4).command == make_plan("b", L4).command

    def test_prices_and_predictions_never_enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = plan(self.base)
        facts = catalog()
        dearer = [price.model_copy(update={"usd": price.usd * 2}) for price in facts.prices]
        monkeypatch.setitem(facts.__dict__, "prices", tuple(dearer))
        monkeypatch.setattr("infra.planning.performance.prompts.LINEAR_FLOPS_SHARE", 0.3)
        after = plan(self.base)
        assert after.speed != before.speed
        assert after.command == before.command

    def test_the_order_of_the_environment_does_not_matter_but_that_of_flags_may(self) -> None:
        one, other = ({"A": "1", "B": "2"}, {"B": "2", "A": "1"})
        hashes = {plan(self.base, serving__env=env).command.spec_hash for env in (one, other)}
        assert len(hashes) == 1

    def test_a_newer_image_under_the_same_tag_is_another_once_it_is_pinned(self) -> None:
        one = plan(L4)
        digest = "sha256:" + "0a" * 32
        assert self._with_image(one, f"vllm/vllm-openai@{digest}").spec_hash != one.command.spec_hash

    def test_it_is_short_and_says_what_it_is(self) -> None:
        found = plan(L4).command.spec_hash
        assert found.startswith(HASH_PREFIX)
        assert len(found) == len(HASH_PREFIX) + 12

    @staticmethod
    def _with_image(one: Plan, image: str) -> Command:
        return command_of(
            one.settings,
            one.server,
            weights_path=one.command.argv[2],
            assistant_path=None,
            image=image,
            revision=one.weights[0].revision,
        )
