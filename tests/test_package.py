"""What importing the package does before anything else."""

import os

import infra


def test_importing_infra_keeps_pydantic_from_searching_every_package_for_plugins() -> None:
    assert infra.__doc__, "the door plate"
    assert os.environ["PYDANTIC_DISABLE_PLUGINS"] == "__all__"
