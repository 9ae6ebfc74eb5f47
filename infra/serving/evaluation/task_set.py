"""The fixed questions with their answers, read from tasks.toml and checked as a whole."""

from __future__ import annotations

import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra.errors import CatalogError

FILE = Path(__file__).parent / "tasks.toml"
Kind = Literal["arithmetic", "extraction", "tools", "image", "context", "instructions", "copying", "translation"]
KINDS: tuple[Kind, ...] = (
    "arithmetic",
    "extraction",
    "tools",
    "image",
    "context",
    "instructions",
    "copying",
    "translation",
)
Value = str | bool | int | float | list[str]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class NumberCheck(_Row):
    """The last number of the answer is `value`. `worked` is the sum that gives it, which a test works out again."""

    form: Literal["number"]
    value: float
    worked: str = ""


class FieldsCheck(_Row):
    """The answer is a JSON object with these fields and no others; those of `nulls` are null."""

    form: Literal["fields"]
    fields: dict[str, Value]
    nulls: list[str] = []
    any_order: bool = False
    """Lists are compared without their order."""


class CallCheck(_Row):
    """The answer is one call of this tool with these arguments."""

    form: Literal["call"]
    name: str
    arguments: dict[str, Value]


class NoCallCheck(_Row):
    """The answer calls no tool and holds one of `words`."""

    form: Literal["no call"]
    words: list[str]


class WordCheck(_Row):
    """The answer holds one of the `right` words and none of the `wrong` ones, whatever their case."""

    form: Literal["word"]
    right: list[str]
    wrong: list[str]


class TextCheck(_Row):
    """The answer is one of these texts, apart from blanks around it, quotation marks and a full stop at its end."""

    form: Literal["text"]
    accepted: list[str]
    any_case: bool = False


class CopyCheck(_Row):
    """The answer is the text of the prompt."""

    form: Literal["copy"]


Check = Annotated[
    NumberCheck | FieldsCheck | CallCheck | NoCallCheck | WordCheck | TextCheck | CopyCheck,
    Field(discriminator="form"),
]


class Shape(_Row):
    """One shape of a picture. Places and sizes are shares of the picture's side, y counted from its top.

    A digit is drawn with seven bars. A bar stands on the bottom edge, `y` is its height and `size` its width.
    """

    shape: Literal["circle", "square", "triangle", "bar", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
    colour: Literal["red", "green", "blue", "black", "yellow"]
    x: float
    y: float
    size: float


class EarlierCall(_Row):
    """A tool call of the model and the tool's result, both given to it before it answers."""

    name: str
    arguments: dict[str, Value]
    result: str


class Task(_Row):
    """One question with what is right. `why` says what a wrong answer would show."""

    id: str
    kind: Kind
    prompt: str
    check: Check
    why: str
    system: str = ""
    keys: dict[str, str] = {}
    """Keys of the JSON that is asked for, with their types."""
    enforced: bool = True
    """Whether the server is made to keep to the keys (`response_format`), or the model alone answers for them."""
    called: EarlierCall | None = None
    picture: tuple[Shape, ...] = ()


class KindOfTask(_Row):
    """What all questions of a kind share. `wording` is put around each question."""

    asks: str
    max_tokens: int
    wording: str = "{prompt}"


class Floor(_Row):
    """The least share of right answers, by kind, of a server that is not called broken."""

    reason: str
    shares: dict[Kind, Annotated[float, Field(gt=0, lt=1)]]


class Tool(_Row):
    """A tool that is offered to the model. All its parameters are needed."""

    description: str
    parameters: dict[str, dict[str, Any]]


class ContextTasks(_Row):
    """How the long texts are made: `depths` and `places` belong together, lengths are tokens."""

    lengths: list[int]
    most_lengths: int
    """The longest so many lengths that the server takes are asked for."""
    depths: list[float]
    places: list[str]
    why: str


class TaskSet(_Row):
    """All questions. `version` is the date of the set: runs of different sets are not compared."""

    version: str
    unproven: str
    """What nobody has tried of it, for whoever reads a verdict."""
    kinds: dict[Kind, KindOfTask]
    floors: dict[str, Floor]
    """By the architecture's id in the catalog, and `default` for all others."""
    tools: dict[str, Tool]
    context: ContextTasks
    tasks: tuple[Task, ...]

    @model_validator(mode="before")
    @classmethod
    def _with_kinds(cls, data: Any) -> Any:
        """Give each task the kind that its id begins with."""
        for task in data.get("tasks", ()):
            task.setdefault("kind", task["id"].partition("-")[0])
        return data

    @model_validator(mode="after")
    def _whole(self) -> Self:
        twice = [name for name, times in Counter(task.id for task in self.tasks).items() if times > 1]
        if twice:
            raise ValueError(f"two tasks have the id {twice[0]}")
        for name, floor in self.floors.items():
            if set(floor.shares) != set(KINDS):
                raise ValueError(f"floors.{name} must name every kind")
        if "default" not in self.floors or set(self.kinds) != set(KINDS):
            raise ValueError("floors.default or a kind is missing")
        return self

    def floor(self, architecture: str) -> Floor:
        """Return the floor of an architecture; the default one where it has none of its own."""
        return self.floors.get(architecture, self.floors["default"])


@cache
def task_set(path: Path = FILE) -> TaskSet:
    """Return the questions that ship with this program. Raises CatalogError where the file contradicts itself."""
    try:
        return TaskSet.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise CatalogError(f"{path.name} cannot be used: {error}") from error
