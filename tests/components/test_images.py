"""Images by name: where one is pulled from, which vLLM it says it holds, and what is said where the name does not tell."""

from __future__ import annotations

from typing import Any

import pytest

from infra.catalog.flags import TABLES
from infra.components.shared.machine_metadata import serving_spec
from infra.errors import Fault, SettingsError
from infra.image_names import parse_image_name, split_host
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.data import as_json
from infra.planning.report.rows import plan_rows

L4 = {"model": "gemma-4-12b-it-qat-w4a16", "accelerator": "l4"}
TPU = {"model": "gemma-4-26b-a4b-it", "accelerator": "v6e-4"}
MIRROR = "us-east4-docker.pkg.dev/my-project/gemma4-test"
DIGEST = "sha256:" + "0a" * 32


def plan(image: str, base: dict[str, str] = L4, mode: str = "mirror", **more: Any) -> Plan:
    return make_plan("test", {**base, "images": {"serving": image, "mode": mode}, **more}, project="my-project")


def about_image(faults: tuple[Fault, ...]) -> list[str]:
    return [str(fault) for fault in faults if fault.key == "images.serving"]


class TestANameIsReadAsDockerReadsIt:
    @pytest.mark.parametrize(
        ("reference", "host", "within"),
        [
            ("ubuntu", "docker.io", "library/ubuntu"),
            ("docker.io/ubuntu:24.04", "docker.io", "library/ubuntu:24.04"),
            ("vllm/vllm-openai:v0.32.0", "docker.io", "vllm/vllm-openai:v0.32.0"),
            ("docker.io/vllm/vllm-openai", "docker.io", "vllm/vllm-openai"),
            ("index.docker.io/vllm/vllm-openai:a", "docker.io", "vllm/vllm-openai:a"),
            ("registry-1.docker.io/vllm/vllm-openai:a", "docker.io", "vllm/vllm-openai:a"),
            (f"ghcr.io/o/vllm:v1@{DIGEST}", "ghcr.io", f"o/vllm:v1@{DIGEST}"),
            ("localhost:5000/vllm:v1", "localhost:5000", "vllm:v1"),
            ("us-docker.pkg.dev/p/r/i:t", "us-docker.pkg.dev", "p/r/i:t"),
        ],
    )
    def test_its_host_and_what_is_within(self, reference: str, host: str, within: str) -> None:
        name = parse_image_name(reference)
        assert (name.host, name.within) == (host, within)
        assert split_host(reference)[0] == host

    @pytest.mark.parametrize(
        "reference",
        [
            "",
            "a b;c",
            "Vllm/vllm",
            "vllm/vllm-openai:",
            "a@sha256:12",
            "ghcr.io/",
            "/a",
            "a//b",
            "a:b:c",
            "a\n",
            "-x/y.z",
        ],
    )
    def test_what_is_no_name_is_one_error(self, reference: str) -> None:
        with pytest.raises(SettingsError) as caught:
            plan(reference)
        assert [str(fault) for fault in caught.value.faults] == [
            f"images.serving: {reference!r} is not the name of an image; write it like vllm/vllm-openai:v0.32.0."
        ]

    def test_the_project_of_googles_registries(self) -> None:
        projects = {
            "us-east4-docker.pkg.dev/a-project/repository/image:t": "a-project",
            "gcr.io/a-project/image": "a-project",
            "eu.gcr.io/a-project/folder/image": "a-project",
            "gcr.io/google.com/cloudsdktool/google-cloud-cli:slim": "google.com:cloudsdktool",
            "vllm/vllm-openai": "",
            "example.com/a-project/image": "",
        }
        assert {reference: parse_image_name(reference).project for reference in projects} == projects


class TestWhereItIsPulledFrom:
    @pytest.mark.parametrize(
        ("reference", "pull"),
        [
            ("vllm/vllm-openai:v0.32.0", f"{MIRROR}/vllm/vllm-openai:v0.32.0"),
            ("docker.io/vllm/vllm-openai:v0.32.0", f"{MIRROR}/vllm/vllm-openai:v0.32.0"),
            ("index.docker.io/vllm/vllm-openai:v0.32.0", f"{MIRROR}/vllm/vllm-openai:v0.32.0"),
            ("my-vllm", f"{MIRROR}/library/my-vllm"),
        ],
    )
    def test_docker_hubs_through_the_mirror(self, reference: str, pull: str) -> None:
        assert plan(reference).images["serving"].pull == pull

    @pytest.mark.parametrize(
        "reference",
        [
            "us-docker.pkg.dev/vertex-ai/vertex-vision-model-garden-dockers/pytorch-vllm-serve:gemma4",
            "europe-west4-docker.pkg.dev/other/repository/vllm:v0.32.0",
            "gcr.io/my-project/vllm:v0.32.0",
            "us.gcr.io/my-project/vllm:v0.32.0",
        ],
    )
    def test_googles_directly(self, reference: str) -> None:
        one = plan(reference)
        assert one.images["serving"].pull == one.images["serving"].upstream == reference
        assert not one.refusals

    @pytest.mark.parametrize(
        "host", ["ghcr.io", "quay.io", "nvcr.io", "public.ecr.aws", "localhost:5000", "evil-gcr.io"]
    )
    def test_others_are_refused_unless_they_are_built_upon(self, host: str) -> None:
        refused = about_image(plan(f"{host}/o/vllm:v0.32.0").refusals)
        assert len(refused) == 1
        assert refused[0].startswith(f"images.serving: {host} is neither Docker Hub nor a registry of Google's.")
        assert "images.mode: build" in refused[0]
        built = plan(f"{host}/o/vllm:v0.32.0", mode="build")
        assert not built.refusals
        assert built.images["serving"].pull == f"{MIRROR}/serving:test"
        assert built.images["serving"].upstream == f"{host}/o/vllm:v0.32.0"

    @pytest.mark.parametrize("path", ["vllm:v0.32.0", "my-project/vllm:v0.32.0"])
    def test_a_name_without_project_or_repository_is_refused(self, path: str) -> None:
        (refused,) = about_image(plan(f"us-docker.pkg.dev/{path}").refusals)
        assert "is too short for an image in Artifact Registry." in refused
        assert "REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG" in refused

    @pytest.mark.parametrize("mode", ["mirror", "build"])
    def test_staging_and_gateway_come_from_where_they_came(self, mode: str) -> None:
        images = plan("vllm/vllm-tpu:v0.32.0", TPU, mode).images
        assert images["staging"].pull == "gcr.io/google.com/cloudsdktool/google-cloud-cli:slim"
        from_hub = "docker.io" if mode == "build" else "us-east5-docker.pkg.dev/my-project/gemma4-test"
        assert images["gateway"].pull == f"{from_hub}/library/haproxy:3.4.7"

    def test_a_machine_logs_in_to_googles_registries_only(self) -> None:
        hosts = {"us-docker.pkg.dev/p/r/vllm:t": "us-docker.pkg.dev", "gcr.io/p/vllm:t": "gcr.io", "o/vllm:t": ""}
        one = plan("vllm/vllm-tpu:v0.32.0", TPU)
        for image, host in hosts.items():
            assert f'"registry": "{host}"' in serving_spec(one, image=image, token_secret=None)

    @pytest.mark.parametrize(("base", "puller"), [(L4, "Cloud Run's service agent"), (TPU, "gemma4-test@my-project.")])
    def test_who_must_be_let_into_another_project_is_said(self, base: dict[str, str], puller: str) -> None:
        other = [
            note for note in plan("us-docker.pkg.dev/theirs/r/vllm:v0.32.0", base).notes if "in project theirs" in note
        ]
        assert len(other) == 1
        assert puller in other[0]
        own = plan("us-docker.pkg.dev/my-project/r/vllm:v0.32.0", base)
        assert not [note for note in own.notes if "artifactregistry.reader" in note]


class TestWhatItHolds:
    @pytest.mark.parametrize(
        ("image", "version"),
        [
            ("vllm/vllm-openai:v0.31.2", "0.31.2"),
            ("vllm/vllm-openai:v0.31.0-cu129", "0.31.0"),
            ("vllm/vllm-openai:v0.31.0-x86_64-cu129-ubuntu2404", "0.31.0"),
            ("vllm/vllm-tpu:0.26.1rc1", "0.26.1rc1"),
            ("registry:5000/vllm:v0.30.0@" + DIGEST, "0.30.0"),
            ("us-docker.pkg.dev/p/r/vllm:1.2", "1.2"),
            ("vllm/vllm-openai:latest", None),
            ("vllm/vllm-openai:nightly", None),
            ("vllm/vllm-openai:gemma4-cu130", None),
            ("vllm/vllm-openai:v0.32.0.1.2", None),
            ("vllm/vllm-openai@" + DIGEST, None),
            ("us-docker.pkg.dev/p/r/my-server:v0.5.0", None),
            ("lmsysorg/sglang:v0.5.12", None),
        ],
    )
    def test_the_version_is_read_from_the_tag_of_what_is_named_after_vllm(
        self, image: str, version: str | None
    ) -> None:
        assert parse_image_name(image).vllm_version == version

    @pytest.mark.parametrize(
        ("image", "said"),
        [
            ("vllm/vllm-openai:latest", "the tag latest does not say which version of vLLM it is."),
            ("vllm/vllm-openai:gemma4", "the tag gemma4 does not say which version of vLLM it is."),
            ("vllm/vllm-openai", "a name without a tag does not say which version of vLLM it is."),
            (f"vllm/vllm-openai@{DIGEST}", "a digest alone does not say which version of vLLM it is."),
        ],
    )
    def test_a_version_that_is_not_said_is_not_made_up(self, image: str, said: str) -> None:
        one = plan(image)
        assert about_image(one.warnings) == [
            f"images.serving: {said} Flags, capacity and times are those of vLLM 0.32.0, whatever the image holds. "
            f"Name a release, for example vllm/vllm-openai:v0.32.0{' before the digest' if '@' in image else ''}."
        ]
        assert one.server.image_version is None
        assert as_json(one)["vllm"]["version"] is None
        assert dict(plan_rows(one))["Capacity"][0].endswith(
            "as vLLM 0.32.0 would count them; the image says no version"
        )

    @pytest.mark.parametrize(("version", "counted"), [("0.40.0", "0.33"), ("1.0.0", "0.33"), ("0.34.0rc1", "0.33")])
    def test_a_version_beyond_those_compared_is_not_claimed_to_be_known(self, version: str, counted: str) -> None:
        one = plan(f"vllm/vllm-openai:v{version}")
        warnings = about_image(one.warnings)
        assert len(warnings) == 1
        assert warnings[0].startswith(f"images.serving: vLLM {version} is outside what was compared: 0.19 to 0.33.")
        assert f"Capacity is counted as {counted} does, flags are checked against 0.33.0" in warnings[0]
        assert (one.server.vllm_version, one.server.image_version) == (counted, version)
        assert f"as vLLM {version} counts them" not in dict(plan_rows(one))["Capacity"][0]

    def test_a_version_that_was_compared_is_counted_by_its_own_rules_with_a_word_on_flags(self) -> None:
        one = plan("vllm/vllm-openai:v0.31.0")
        assert not about_image(one.warnings)
        assert dict(plan_rows(one))["Capacity"][0].endswith("as vLLM 0.31.0 counts them")
        assert [
            note
            for note in one.notes
            if note.startswith("Flags were checked against vLLM 0.32.0; the image says 0.31.0")
        ]

    def test_the_images_of_the_catalog_draw_no_word(self) -> None:
        for one in (make_plan("test", L4), make_plan("test", TPU), plan("vllm/vllm-openai:v0.32.0")):
            assert not about_image(one.warnings)
            assert one.server.image_version == one.server.vllm_version == "0.32.0"

    def test_every_version_with_a_flag_table_draws_no_word_on_a_gpu(self) -> None:
        for version in TABLES:
            one = plan(f"vllm/vllm-openai:v{version}")
            assert not about_image(one.warnings)
            assert not [note for note in one.notes if "Flags were checked" in note]
            assert one.server.image_version == one.server.vllm_version == version
            assert dict(plan_rows(one))["Capacity"][0].endswith(f"as vLLM {version} counts them")

    def test_a_release_that_does_not_exist_for_a_tpu_is_warned_of(self) -> None:
        assert about_image(plan("vllm/vllm-tpu:v0.33.0", TPU).warnings) == [
            "images.serving: vLLM 0.33.0 is newer than the newest release for a TPU that was found: 0.32.0. Unless the image "
            "is your own it cannot be pulled, and what a TPU does is planned as in 0.32.0. Name vllm/vllm-tpu:v0.32.0."
        ]

    def test_a_flag_that_only_the_image_s_version_has_is_taken_with_it_alone(self) -> None:
        args: dict[str, Any] = {"vllmArgs": {"monokernel": True, "disable-fastapi-docs": True}}
        assert "--monokernel" in plan("vllm/vllm-openai:v0.33.0", **args).command.argv
        with pytest.raises(SettingsError, match=r"is a flag of vLLM 0\.33\.0 and later, not of 0\.32\.0"):
            plan("vllm/vllm-openai:v0.32.0", **args)

    def test_an_explicit_kv_type_must_be_the_compute_type_since_0_33(self) -> None:
        kv: dict[str, Any] = {"serving": {"kvCacheDtype": "float16"}}
        both: dict[str, Any] = {"serving": {"kvCacheDtype": "float16", "dtype": "float16"}}
        assert not plan("vllm/vllm-openai:v0.32.0", **kv).refusals
        refused = plan("vllm/vllm-openai:v0.33.0", **kv).refusals
        assert [str(fault) for fault in refused] == [
            "serving.kvCacheDtype: float16 is not the compute type, bfloat16. Since 0.33 vLLM refuses to start with it. "
            "Leave it out, or write auto or bfloat16."
        ]
        assert not plan("vllm/vllm-openai:v0.33.0", **both).refusals

    @pytest.mark.parametrize(
        ("image", "base", "fact"),
        [
            ("lmsysorg/sglang:latest", L4, "lmsysorg/sglang holds SGLang."),
            ("docker.io/lmsysorg/sglang:v0.5.12", TPU, "lmsysorg/sglang holds SGLang."),
            ("vllm/vllm-tpu:v0.32.0", L4, "vllm/vllm-tpu is vLLM for a TPU, and l4 has none."),
            ("vllm/vllm-openai:v0.32.0", TPU, "vllm/vllm-openai is vLLM for a GPU, and v6e-4 has none."),
        ],
    )
    def test_what_cannot_run_there_is_refused(self, image: str, base: dict[str, str], fact: str) -> None:
        one = plan(image, base)
        refused = about_image(one.refusals)
        assert len(refused) == 1
        assert refused[0].startswith(f"images.serving: {fact}")
        assert not about_image(one.warnings)

    @pytest.mark.parametrize("image", ["ubuntu", "us-docker.pkg.dev/p/r/server:v0.32.0", "me/sglang:v0.5.12"])
    def test_what_is_not_named_after_vllm_is_warned_of(self, image: str) -> None:
        one = plan(image)
        assert not about_image(one.refusals)
        assert about_image(one.warnings) == [
            "images.serving: is not known to hold vLLM: its name does not say so. Flags, capacity and times are those of "
            "vLLM 0.32.0, and without vLLM nothing would start. Make sure that `vllm serve` runs in it, or use "
            "vllm/vllm-openai:v0.32.0."
        ]

    def test_an_assistant_needs_a_vllm_that_knows_it(self) -> None:
        mtp: dict[str, Any] = {"serving": {"speculation": {"method": "mtp"}}}
        l31b = {"model": "gemma-4-31b-it", "accelerator": "rtx-pro-6000"}
        old = plan("vllm/vllm-openai:v0.20.0", l31b, **mtp)
        assert [fault.key for fault in old.refusals] == ["serving.speculation.method"]
        assert "0.21.0 is the first that can" in str(old.refusals[0])
        assert not plan("vllm/vllm-openai:v0.21.0", l31b, **mtp).refusals
        assert not plan("vllm/vllm-openai:v0.20.0", l31b).refusals

    @pytest.mark.parametrize(
        ("tag", "said", "table"), [("v0.40.0", "0.40.0", "0.33.0"), ("nightly", "no version", "0.32.0")]
    )
    def test_a_flag_that_only_another_vllm_may_know_is_warned_of_not_refused(
        self, tag: str, said: str, table: str
    ) -> None:
        args: dict[str, Any] = {"vllmArgs": {"brand-new": 1}}
        one = plan(f"vllm/vllm-openai:{tag}", **args)
        warned = [str(fault) for fault in one.warnings if fault.key == "vllmArgs.brand-new"]
        assert warned == [
            f"vllmArgs.brand-new: is not a flag of vLLM {table}. That is by the flags of vLLM {table}; the image says {said}, "
            "and its own are not on file. If it is wrong there too, the server stops at its command line, after the machine is "
            "paid for. See vllm serve --help=all."
        ]
        assert one.command.argv[-9:-7] == ("--brand-new", "1")
        for known in ("v0.32.0", "v0.32.0-cu129", "v0.33.0"):
            with pytest.raises(SettingsError, match="would stop at its command line"):
                plan(f"vllm/vllm-openai:{known}", **args)

    def test_a_flag_that_a_setting_owns_is_refused_with_every_image(self) -> None:
        args: dict[str, Any] = {"vllmArgs": {"max-num-seqs": 4}}
        with pytest.raises(SettingsError, match=r"already decided by serving\.maxNumSeqs"):
            plan("vllm/vllm-openai:nightly", **args)
