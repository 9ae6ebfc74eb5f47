"""The manifest that the weights copy writes and the supervisor reads: what is one, and which names it may hold."""

from __future__ import annotations

import json

import pytest

from containers.shared.manifest import ManifestFile, is_file_name, read_manifest


def test_a_manifest_is_its_document_and_its_files() -> None:
    row = {"name": "a/b.json", "size": 3, "sha256": "0" * 64, "git-sha1": "1" * 40}
    document, files = read_manifest(json.dumps({"repo": "google/gemma", "files": [row]}).encode())
    assert document["repo"] == "google/gemma"
    assert files == [ManifestFile("a/b.json", 3, "0" * 64)]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"3", b"{}", b'{"files": 3}', b'{"files": [{"name": "x"}]}', b"[" * 100_000]
)
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  whatever its text
        read_manifest(text)


@pytest.mark.parametrize("name", ["config.json", "sub folder/größe..v2.json", "...json", ".hidden"])
def test_names_as_repositories_have_them_are_file_names(name: str) -> None:
    assert is_file_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "/x", "x/", "a//b", "../x", "a/../b", "a\nb", "a\u202eb", 7, None])
def test_what_leads_out_of_a_folder_or_cannot_be_printed_is_not_a_file_name(name: object) -> None:
    assert not is_file_name(name)
