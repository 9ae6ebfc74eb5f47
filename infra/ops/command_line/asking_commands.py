"""What asks the model itself: ask, chat."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.errors import SettingsError
from infra.ops.command_line.options import AsJson, OptionalStack, Url, examples
from infra.ops.command_line.root import ASKING, app

System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="What the model is told before the question.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        min=1,
        max=10**7,
        help="Longest answer, tokens; default: what the question leaves of the context.",
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        min=0,
        max=2,
        help="0 takes the likeliest token every time; default: as the model comes with it.",
    ),
]
Think = Annotated[
    bool, typer.Option("--think", help="Let the model think first; its thoughts go to standard error, dimmed.")
]
Adapter = Annotated[
    str | None, typer.Option("--adapter", metavar="NAME", help="Ask this LoRA adapter instead of the model.")
]
Slice = Annotated[
    str | None,
    typer.Option("--slice", metavar="NAME", help="Ask this TPU slice; default: whichever the gateway chooses."),
]


@app.command(
    rich_help_panel=ASKING,
    epilog=examples(
        'ask l4 "Why is the sky blue?"',
        'ask l4 - --system "Summarise this." < report.txt',
        'ask l4 "What does this sign say?" --image sign.jpg',
        'ask l4 "Name and year of the first web browser." --schema browser.json | jq .year',
        'ask --url http://127.0.0.1:8000 "Is 2027 a prime number?" --think',
    ),
)
def ask(
    stack: OptionalStack = None,
    question: Annotated[
        str | None, typer.Argument(help="The question; - reads it from standard input.", show_default=False)
    ] = None,
    url: Url = None,
    system: System = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    image: Annotated[
        list[str] | None,
        typer.Option(
            "--image",
            metavar="FILE_OR_URL",
            help="A PNG, JPEG, GIF or WebP to send along, or its address for the server to fetch. Repeatable.",
        ),
    ] = None,
    audio: Annotated[
        list[str] | None,
        typer.Option(
            "--audio", metavar="FILE", help="A WAV, MP3, FLAC or Ogg, where the model has an audio tower. Repeatable."
        ),
    ] = None,
    think: Think = False,
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools", metavar="FILE", help="Tools that the model may call, as JSON in the form of OpenAI's API."
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="JSON schema that the answer must have. The model is held to it but does not see it: say in the question "
            "what each field means.",
        ),
    ] = None,
    adapter: Adapter = None,
    slice_name: Slice = None,
    as_json: AsJson = False,
) -> None:
    """Ask the model one question.

    Prints the answer while it is written; standard output holds nothing else, so it can be piped. Tool calls are printed as
    JSON, one a line. Time to the first token, tokens a second and the tokens of question and answer follow on standard
    error. Ctrl-C stops the generation and counts what came. The identity token is made and renewed by itself.

    Exit codes: 0 answered, 1 the server failed or the answer does not have its schema, 2 the question cannot be asked, 130
    stopped.
    """
    from infra.ops.conversation.ask import ask_answer, question_from, show_ask

    if url is not None and question is None:
        stack, question = None, stack
    if question is None:
        fix = 'Write for example: gemma4 ask l4 "Why is the sky blue?"'
        raise SettingsError.of("question", "is missing.", "There is nothing to answer.", fix)
    text = question_from(question)
    code = show_ask(
        lambda show: ask_answer(
            text,
            stack,
            url,
            system=system,
            max_tokens=max_tokens,
            temperature=temperature,
            image=image,
            audio=audio,
            think=think,
            tools=tools,
            schema=schema,
            adapter=adapter,
            slice_name=slice_name,
            show=show,
        ),
        as_json=as_json,
    )
    if code:
        raise typer.Exit(code)


@app.command(
    rich_help_panel=ASKING,
    epilog=examples(
        "chat l4",
        'chat l4 --system "You are a patient teacher of French."',
        "chat v6e4 --slice blue --think",
        "chat --url http://127.0.0.1:8000 < questions.txt",
    ),
)
def chat(
    stack: OptionalStack = None,
    url: Url = None,
    system: System = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    think: Think = False,
    adapter: Adapter = None,
    slice_name: Slice = None,
) -> None:
    """Hold a conversation with the model.

    What was said before goes with every question, and each answer is printed while it is written. Ctrl-C ends an answer, not
    the chat; Ctrl-D ends the chat. Commands begin with a slash: /clear, /system TEXT, /image FILE, /think on, /save FILE,
    /stats, /help, /exit. When the context is full, the oldest turns are not sent any more, and the chat says so. From a pipe
    each line is a question, and standard output holds the answers alone.

    Exit codes: 0 ended, 1 the server failed, or a line from a pipe was not answered, 2 the chat cannot begin.
    """
    from infra.ops.conversation.chat import show_chat

    code = show_chat(
        stack,
        url,
        system=system,
        max_tokens=max_tokens,
        temperature=temperature,
        think=think,
        adapter=adapter,
        slice_name=slice_name,
    )
    if code:
        raise typer.Exit(code)
