"""What is typed wrongly when the model is asked: found before anything is sent. Nobody listens at the address."""

from __future__ import annotations

from collections.abc import Mapping

from tests.messages.case import Case

_ASK = "ask --url http://127.0.0.1:9 hi"

QUESTIONS: Mapping[str, tuple[Case, ...]] = {
    "A question to the model": (
        Case("ask", 2, ("question",)),
        Case("ask l4", 2, ("question",)),
        Case("ask l4 ' '", 2, ("question",)),
        Case("ask --url http://127.0.0.1:9", 2, ("question",)),
        Case("ask l4 hi --url http://127.0.0.1:9", 2, ("--url",)),
        Case("ask --url ftp://x hi", 2, ("--url",)),
        Case("ask l4 Why not", 2, ("not",)),
        Case("query l4 Why", 2, ("query",)),
        Case(_ASK, 1, ("nothing listens there",)),
        Case(f"{_ASK} --image README.md", 2, ("--image",)),
        Case(f"{_ASK} --image nothing.png --image docs --audio README.md", 2, ("--image", "--image", "--audio")),
        Case(f"{_ASK} --image gs://bucket/sign.png", 2, ("--image",)),
        Case(f"{_ASK} --tools README.md", 2, ("--tools",)),
        Case(f"{_ASK} --tools old.json", 2, ("--tools",)),
        Case(f"{_ASK} --schema nothing.json", 2, ("--schema",)),
        Case(f"{_ASK} --temperature 3", 2, ("--temperature",)),
        Case(f"{_ASK} --max-tokens 0", 2, ("--max-tokens",)),
        Case(f"{_ASK} --slice blue", 2, ("--slice",)),
        Case("chat", 2, ("stack",)),
        Case("chat --url http://127.0.0.1:9", 1, ("nothing listens there",)),
        Case("chat --url http://127.0.0.1:9 --image a.png", 2, ("--image",)),
    ),
}
