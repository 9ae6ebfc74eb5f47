"""What Hugging Face's client is given and leaves: a token in a file, models in memory."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from containers.supervisor.gemma4_supervisor import preparation
from containers.supervisor.gemma4_supervisor.docker import Abandoned
from containers.supervisor.gemma4_supervisor.huggingface import token_files, unnamed_models
from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from tests.containers.supervisor.test_desired_spec import parsed


class TestHuggingFaceFiles:
    @pytest.mark.parametrize(
        ("home", "argv", "kept"),
        [
            ("/dev/shm/hf", ["google/a-it"], {"google--a-it"}),
            ("/dev/shm/hf", ["--model=google/a"], {"google--a"}),
            ("/dev/shm/hf", ["google/a-it", '{"model": "google/a"}'], {"google--a", "google--a-it"}),
            ("/dev/shm/hf", ["/dev/shm/weights/google/a"], set()),
            ("/root/hf", [], {"google--a", "google--a-it"}),
            ("/dev/shm/../../root/hf", [], {"google--a", "google--a-it"}),
            (None, [], {"google--a", "google--a-it"}),
        ],
    )
    def test_models_in_memory_are_kept_where_the_command_names_them(
        self, tmp_path: Path, home: str | None, argv: list[str], kept: set[str]
    ) -> None:
        models = {"google--a", "google--a-it"}
        memory = tmp_path / "dev" / "shm"
        for folder in ("dev/shm/hf", "root/hf"):
            for model in models:
                (tmp_path / folder / "hub" / f"models--{model}").mkdir(parents=True)
        env = {} if home is None else {"HF_HOME": f"{tmp_path}{home}"}
        spec = parsed(env=env, argv=["vllm", "serve", *argv])
        gone = {folder.name.removeprefix("models--") for folder in unnamed_models(spec, memory)}
        assert models - gone == kept

    def test_a_token_that_came_too_late_is_not_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = SupervisorSettings(run_dir=tmp_path)
        context: Any = SimpleNamespace(settings=settings, log=Log(io.StringIO()))
        spec = parsed(hfTokenSecret="projects/p/secrets/s")
        late = preparation.Preparation(context, spec, lambda _: None)

        def answer(*_: object) -> str:
            late.abandon()
            return "hf_of_a_specification_that_was_given_up"

        monkeypatch.setattr(preparation, "secret", answer)
        with pytest.raises(Abandoned):
            late._token()
        assert token_files(tmp_path) == []
