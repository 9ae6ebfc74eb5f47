"""Everything in the repository that is written by the program itself, and what it should say now.

`make golden` writes it; the tests compare. Read the difference before committing it: a golden plan is reviewed like code.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from infra.ops.cli import run
from infra.ops.commands.explain import describe_setting
from infra.ops.commands.glossary import GLOSSARY
from infra.planning.settings.paths import known_paths
from infra.planning.settings.stackfile import stack_names
from infra.planning.units import Band, read_count, read_predicted
from tests import command_pages, json_pages, needs
from tests.messages.transcript import transcript
from tests.projects import ROOT, bare_environment

GOLDEN = ROOT / "tests" / "golden"
README = ROOT / "README.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
NEEDS_PAGE = ROOT / "docs" / "tasks" / "choose-a-machine.md"
GLOSSARY_PAGE = ROOT / "docs" / "glossary.md"
MESSAGES = GOLDEN / "messages.md"
SCORECARD = ROOT / "docs" / "scorecard.md"

_BLOCK = re.compile(r"(<!-- written by make golden: ([a-z0-9 -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def wanted() -> dict[Path, str]:
    """Return the files that the program writes, and what each should hold now."""
    files = {GOLDEN / f"{name}.json": golden_plan(name) for name in stack_names(ROOT)}
    pages = {
        CONFIGURATION: configuration(),
        GLOSSARY_PAGE: glossary(),
        MESSAGES: transcript(),
        NEEDS_PAGE: needs.page(output),
        SCORECARD: scorecard(),
    }
    made = {**files, **pages, **json_pages.pages(), **command_pages.pages()}
    return made | {page: with_blocks(page.read_text("utf-8")) for page in (README, command_pages.INDEX)}


def golden_plan(stack: str) -> str:
    """The plan of a shipped stack as `gemma4 plan --json` prints it, in the form of its golden file.

    One resource a line; of settings and origins only those that are not the default; hashes of files left out, since what
    is in a file is reviewed where the file is.
    """
    plan = json.loads(output("plan", stack, "--json"))
    chosen = {path for path, origin in plan["origins"].items() if origin != "default"}
    plan["origins"] = {path: plan["origins"][path] for path in plan["origins"] if path in chosen}
    plan["settings"] = {path: value for path, value in plan["settings"].items() if path in chosen}
    rows = plan["resources"]
    plan["resources"] = "RESOURCES"
    lines = ",\n".join(f"    {_HASH.sub('…', json.dumps(row, ensure_ascii=False))}" for row in rows)
    text = json.dumps(plan, indent=2, ensure_ascii=False)
    return text.replace('"RESOURCES"', f"[\n{lines}\n  ]" if rows else "[]") + "\n"


_HASH = re.compile(r"(?<=sha256:)[0-9a-f]{64}|(?<![-\w])[0-9a-f]{12}(?![-\w])|(?<=text of )[\d,]+(?= characters)")
"""Hashes of files and of what is made from files, and the length of a file that travels as text."""


def output(*words: str) -> str:
    """Return what a command prints in the checkout. It must end with 0 or with a refusal."""
    printed = io.StringIO()
    with bare_environment(), contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        code = run(words)
    if code not in (0, 3):
        raise SystemExit(f"gemma4 {' '.join(words)} ended with {code}")
    return printed.getvalue()


def scorecard() -> str:
    """Return the page of published runs beside their predictions; its date stays where nothing else has changed."""
    new, old = output("scorecard", "--markdown"), SCORECARD.read_text("utf-8") if SCORECARD.is_file() else ""
    dates = [_WRITTEN_ON.search(text) for text in (new, old)]
    undated = [_WRITTEN_ON.sub("", text) for text in (new, old)]
    return old if all(dates) and undated[0] == undated[1] else new


_WRITTEN_ON = re.compile(r"(?<=Written on )\d{4}-\d\d-\d\d")


def with_blocks(text: str) -> str:
    """Return a page with its marked blocks written anew."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}{_BLOCKS[match[2]]()}\n{match[3]}"

    return _BLOCK.sub(block, text)


def _plan() -> str:
    return f"```text\n$ make plan\n{output('plan', 'l4').rstrip()}\n```"


def _stacks() -> str:
    rows = json.loads(output("stacks", "--json"))["stacks"]
    lines = [
        "| stack | model | machine | where | verdict | KV cache, tokens | $/hour running |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = row["verdict"] + ("" if row["deployable"] else ", plan only")
        cells = (f"`{row['stack']}`", row["model"], row["accelerator"], row["location"], verdict)
        tokens = read_predicted(Band(**row["kvTokensBand"]), read_count, brief=True)
        lines.append(f"| {' | '.join(cells)} | {tokens} | {row['usdPerHour']:.2f} |")
    return "\n".join(lines)


_BLOCKS: Mapping[str, Callable[[], str]] = {"plan l4": _plan, "stacks": _stacks, "commands": command_pages.table}


def configuration() -> str:
    """Return the reference of all settings, made from the settings themselves."""
    return "\n".join(_configuration()) + "\n"


_HEAD = """# Configuration

<!-- written by make golden from infra/planning/settings/declarations.py -->

What a stack file `Pulumi.<stack>.yaml` may say under `config:`, each key with the prefix `gemma4:`. The same text is
printed by `gemma4 explain KEY`. Only `model` and `accelerator` are needed.

* A value is taken from the last of these that says something: default, recipe of the model on the accelerator, recipe
  of the profile, stack file, `--set` on the command line. `gemma4 plan STACK --json` tells each value's `origins`.
* `null` takes away what the layers below say. A default shown as *chosen* is chosen by the planner, or left to vLLM.
* A group holds its members, `gemma4:serving: {maxModelLen: 4096}`, or a member is named with dots,
  `gemma4:serving.maxModelLen: 4096`, as `pulumi config set` writes it without `--path`. One value set in both ways is an error.
* Unknown keys and wrong values are errors that name the key; all of a file are reported at once.
* Beside these keys, `gcp:project` is needed to deploy, not to plan. Other `gcp:` keys are the provider's own."""


def _configuration() -> Iterator[str]:
    rows = [describe_setting(path, field) for path, field in known_paths()]
    yield _HEAD
    yield from (
        "",
        "## First level",
        "",
        *_table(row for row in rows if "." not in row["key"] and row["type"] != "group"),
    )
    for group in (row for row in rows if row["type"] == "group"):
        members = [row for row in rows if row["key"].rpartition(".")[0] == group["key"] and row["type"] != "group"]
        yield from ("", f"## {group['key']}", "", group["meaning"])
        if members:
            yield from ("", *_table(members))


def _table(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "| key | meaning | type and range | default | example |"
    yield "|---|---|---|---|---|"
    for row in rows:
        kind = ", ".join(filter(None, (row["type"], row["range"])))
        example = f"`{_yaml(row['example'])}`" if row["example"] is not None else ""
        cells = (f"`{row['key']}`", row["meaning"], kind, _default(row), example)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(row: Mapping[str, Any]) -> str:
    if row["required"]:
        return "*needed*"
    if row["default"] is None:
        return "*chosen*"
    return f"`{_yaml(row['default'])}`"


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_GLOSSARY_HEAD = """# Glossary

<!-- written by make golden from infra/ops/commands/glossary.py -->

The words that plans, messages and these pages use. `gemma4 explain WORD` prints the same entry in a terminal.
"""


def glossary() -> str:
    """The page of all words that `gemma4 explain` knows, sorted, with settings and commands set as code."""
    settings = "|".join(sorted((re.escape(path) for path, _ in known_paths() if "." in path), key=len, reverse=True))
    lines = [_GLOSSARY_HEAD, "| word | meaning |", "|---|---|"]
    for word in sorted(GLOSSARY, key=str.lower):
        meaning = re.sub(r"(\w): (gemma4 [^.]+)$", r"\1 `\2`.", GLOSSARY[word])
        meaning = re.sub(rf"(?<![\w.`])({settings})(?![\w`])", r"`\1`", meaning)
        lines.append(f"| **{word}** | {meaning} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every file anew and print which have changed."""
    files = wanted()
    stale = {*GOLDEN.glob("*.json"), *command_pages.FOLDER.glob("*.md")} - set(files)
    for path in sorted(stale):
        path.unlink()
    changed = [path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], "utf-8")
    for path in sorted({*changed, *stale}):
        print(path.relative_to(ROOT))
    print(f"{len(changed)} written, {len(stale)} removed" if changed or stale else "nothing has changed")


if __name__ == "__main__":
    main()
