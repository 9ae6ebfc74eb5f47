"""Wrong settings: every message names a setting that exists, in all forms that a plan is printed in, and whatever is
written is planned or answered.

Which settings are wrong, and how the answer must be, stands in tests/messages; the words stand in
tests/golden/messages.md, and what must be true of every answer is tested in tests/ops/test_mistakes.py.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.errors import Gemma4Error
from infra.planning.planner import make_plan
from infra.planning.settings.paths import known_paths
from tests.messages import EVERY
from tests.messages.case import Case, plan_of
from tests.projects import Capture, Command, command, write_stack

QAT_12B, BF16_31B, MOE = "gemma-4-12b-it-qat-w4a16", "gemma-4-31b-it", "gemma-4-26b-a4b-it"
PLANNED = [case for case in EVERY if case.is_plan]


@pytest.fixture
def gemma4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Command:
    """The command in an empty project folder."""
    write_stack(tmp_path, "", model=QAT_12B, accelerator="l4")
    monkeypatch.chdir(tmp_path)
    return command(capsys)


class TestARefusalOrWarning:
    @pytest.mark.parametrize("case", PLANNED, ids=lambda case: case.name[:80])
    def test_a_refusal_or_warning_names_a_setting_that_exists(self, case: Case) -> None:
        data = plan_of(case).data
        known = {path for path, _ in known_paths()}
        for fault in (*data["refusals"], *data["warnings"]):
            assert fault["key"] in known or fault["key"].startswith(("vllmArgs.", "serving.env.", "serving.adapters."))

    def test_a_refusal_and_a_warning_stand_in_the_text_and_in_the_comment(self, gemma4: Command) -> None:
        write_stack(
            Path.cwd(), "gemma4:region: us-central1\ngemma4:scaling: {cpu: 16}", model=QAT_12B, accelerator="l4"
        )
        text, comment = (" ".join(gemma4("plan", "mine", *form).out.split()) for form in (["--full"], ["--markdown"]))
        plan = gemma4("plan", "mine", "--json", "--no-resources").data
        ((refusal,), (warning,)) = plan["refusals"], plan["warnings"]
        assert (refusal["key"], warning["key"]) == ("scaling.cpu", "region")
        assert f"Refused scaling.cpu: {refusal['fact']}" in text
        assert f"Warning region: {warning['fact']}" in text
        assert f"⛔ **scaling.cpu**: {refusal['fact']}" in comment
        assert f"⚠️ **region**: {warning['fact']}" in comment

    def test_a_fault_is_data_where_data_was_asked_for(self, gemma4: Command) -> None:
        write_stack(Path.cwd(), "gemma4:regoin: us-east4", model=QAT_12B, accelerator="l4")
        answer = gemma4("plan", "mine", "--json")
        assert (answer.code, answer.err, answer.data["verdict"]) == (2, "", "bad settings")
        (fault,) = answer.data["faults"]
        assert (fault["key"], fault["fix"]) == ("regoin", "Did you mean region?")
        assert answer.data["error"] == " ".join(("regoin:", fault["fact"], fault["consequence"], fault["fix"]))


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
    def test_whatever_is_written_is_planned_or_answered_with_an_error_for_users(
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
