"""Stack files that are broken, and keys or values that YAML reads in another way than they were meant."""

from __future__ import annotations

from collections.abc import Mapping

from tests.messages.case import Case, written


def _file(title: str, names: tuple[str, ...], file: str | bytes, *, meant: str = "") -> Case:
    return Case("plan x", 2, names, meant=meant, title=title, file=file)


FILES: Mapping[str, tuple[Case, ...]] = {
    "Files that cannot be read": (
        _file("an empty file", ("model", "accelerator"), ""),
        _file("a file with nothing under `config:`", ("model", "accelerator"), "config:\n"),
        _file("a file without `config:`", ("Pulumi.x.yaml",), "gemma4:model: gemma-4-12b-it\ngemma4:accelerator: l4\n"),
        _file("a list under `config:`", ("Pulumi.x.yaml",), "config:\n  - gemma4:model: gemma-4-12b-it\n"),
        _file("a list for a file", ("Pulumi.x.yaml",), "- config\n- model\n"),
        _file("a tab for blanks", ("Pulumi.x.yaml line 2",), "config:\n\tgemma4:model: gemma-4-12b-it\n"),
        _file(
            "a bracket left open at the end of the file",
            ("Pulumi.x.yaml line 4",),
            "config:\n  gemma4:model: gemma-4-12b-it-qat-w4a16\n  gemma4:accelerator: [l4\n",
        ),
        _file("two colons in a line", ("Pulumi.x.yaml line 2",), "config:\n  gemma4:model: gemma-4: 12b\n"),
        written("the model twice", 2, ("Pulumi.x.yaml line 4",), "gemma4:model: gemma-4-31b-it"),
        written(
            "a key twice in a group",
            2,
            ("Pulumi.x.yaml line 6",),
            """
            gemma4:serving:
              maxModelLen: 4096
              maxModelLen: 8192
            """,
        ),
        _file("two documents", ("Pulumi.x.yaml line 2",), "config: {}\n---\nconfig: {}\n"),
        _file("a value that holds itself", ("Pulumi.x.yaml line 1",), "config: &all\n  gemma4:model: *all\n"),
        _file("a program for a stack file", ("Pulumi.x.yaml",), b"\x00\xc3(ELF\xff"),
        _file(
            "a file in UTF-16",
            ("Pulumi.x.yaml",),
            "\ufeffconfig:\n  gemma4:model: gemma-4-12b-it\n".encode("utf-16-le"),
        ),
        _file(
            "a file in Latin-1",
            ("Pulumi.x.yaml",),
            b"config:\n  gemma4:model: gemma-4-12b-it-qat-w4a16\n  gemma4:accelerator: l4\n  # Z\xfcrich\n",
        ),
        _file("a byte that YAML has not", ("Pulumi.x.yaml",), "config:\n  gemma4:model: a\x00b\n"),
        Case("plan x", 2, ("Pulumi.x.yaml",), title="a folder for a file", place="folder"),
        Case("plan x", 2, ("Pulumi.x.yaml",), title="a link to nothing", place="dangling link"),
        _file(
            "a tag that would run a program",
            ("Pulumi.x.yaml line 2",),
            "config:\n  gemma4:model: !!python/object/apply:os.system [ls]\n",
        ),
        _file("three thousand brackets", ("Pulumi.x.yaml",), "config:\n  gemma4:labels: " + "[" * 3000 + "]" * 3000),
        Case(
            "plan x",
            2,
            ("stack",),
            title="a stack file with the ending .yml",
            file="config:\n  gemma4:model: gemma-4-12b-it-qat-w4a16\n  gemma4:accelerator: l4\n",
            place="Pulumi.x.yml",
        ),
        Case("stacks", 0, ("Pulumi.x.yaml line 2",), title="a broken file among the stacks", file="config: [\n"),
        _file("a list for a key", ("Pulumi.x.yaml line 1",), "config: {[a]: b}\n"),
        _file("a tag before what is not of its kind", ("Pulumi.x.yaml",), "config: {a: !!bool x}\n"),
        _file("a date tag before what is none", ("Pulumi.x.yaml",), "config: {a: !!timestamp x}\n"),
        _file("a number tag before nothing", ("Pulumi.x.yaml",), "config: {a: !!int ''}\n"),
    ),
    "Keys and values that are read in another way": (
        _file(
            "a misspelt namespace",
            ("gema4:model",),
            "config:\n  gemma4:accelerator: l4\n  gema4:model: gemma-4-12b-it\n",
        ),
        _file(
            "a namespace in capitals",
            ("Gemma4:model",),
            "config:\n  gemma4:accelerator: l4\n  Gemma4:model: gemma-4-12b-it\n",
        ),
        _file(
            "a misspelt key, and so no model",
            ("modle", "model"),
            "config:\n  gemma4:accelerator: l4\n  gemma4:modle: gemma-4-12b-it\n",
            meant="model",
        ),
        _file("no accelerator", ("accelerator",), "config:\n  gemma4:model: gemma-4-12b-it\n"),
        written(
            "six mistakes at once",
            2,
            ("serving.maxNumSqs", "scaling", "model", "accelerator", "region", "serving.maxModelLen"),
            """
            gemma4:region: nowhere
            gemma4:serving: {maxNumSqs: 4, maxModelLen: lots}
            gemma4:scaling: 4
            """,
            pair=("gemma-4-12", "l5"),
            meant="serving.maxNumSeqs",
        ),
        _file(
            "a model as a secret", ("model",), "config:\n  gemma4:model: {secure: AAABADr0}\n  gemma4:accelerator: l4\n"
        ),
        written("a group as JSON that is cut off", 2, ("serving",), "gemma4:serving: '{\"maxModelLen\": 4096'"),
        written(
            "a revision that YAML reads as a date", 2, ("weights.revision",), "gemma4:weights: {revision: 2024-01-01}"
        ),
        written("a revision that YAML reads as a number", 2, ("weights.revision",), "gemma4:weights: {revision: 0123}"),
        written("a label of pictures", 2, ("labels.team",), 'gemma4:labels: {team: "🚀"}'),
        written("a label that turns the line round", 2, ("labels.\\u202eteam",), 'gemma4:labels: {"\\u202eteam": a}'),
        _file(
            "a value of 300 letters",
            ("model",),
            "config:\n  gemma4:accelerator: l4\n  gemma4:model: " + "g" * 300 + "\n",
        ),
        _file(
            "a value that would colour the terminal",
            ("model",),
            'config:\n  gemma4:accelerator: l4\n  gemma4:model: "\\e[31mred"\n',
        ),
        _file(
            "a value that looks like markup",
            ("model",),
            'config:\n  gemma4:accelerator: l4\n  gemma4:model: "[bold red]x[/]"\n',
        ),
        written("a token under the name of its ciphertext", 2, ("hfToken",), "gemma4:hfToken.secure: A-TOKEN"),
        written(
            "a value set in both ways",
            2,
            ("serving.maxModelLen",),
            """
            gemma4:serving: {maxModelLen: 4096}
            gemma4:serving.maxModelLen: 8192
            """,
        ),
        written("a path with a colon", 2, ("serving.maxModelLen",), "gemma4:serving:maxModelLen: 4096"),
        written(
            "a key with a place in a list", 2, ("tpu.slices[0]",), "gemma4:tpu.slices[0]: blue", meant="tpu.slices"
        ),
        written("a group as a secret", 2, ("serving",), "gemma4:serving: {secure: AAABADr0}"),
        written("a key that would colour the terminal", 2, ("labels.a\\x1b[31mb",), 'gemma4:labels: {"a\\e[31mb": c}'),
        written(
            "a number that is none, in JSON",
            2,
            ("serving.gpuMemoryUtilization",),
            "gemma4:serving: '{\"gpuMemoryUtilization\": NaN}'",
        ),
    ),
}
