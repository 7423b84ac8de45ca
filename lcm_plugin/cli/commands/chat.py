"""``lcm chat``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lcm_plugin.cli.exits import USAGE, complain

_Model = Annotated[
    str, typer.Option("--model", "-m", envvar="LCM_CHAT_MODEL", help="litellm's name of a model.")
]
_BaseUrl = Annotated[str | None, typer.Option(help="A server of your own that speaks OpenAI's protocol.")]
_Window = Annotated[int | None, typer.Option(min=1_000, help="The model's context size in tokens.")]
_Session = Annotated[str, typer.Option(help="Session key: the same key goes on with the same talk.")]
_Database = Annotated[
    str | None, typer.Option("--database", "-d", metavar="PATH|URL", help="Where to keep it.")
]
_AllowTools = Annotated[
    bool, typer.Option("--allow-tools", help="Let the model run shell commands and read files.")
]

NO_MODEL = (
    "which model? For example: lcm chat --model anthropic/claude-sonnet-4-5 (key in ANTHROPIC_API_KEY), "
    "lcm chat --model ollama/llama3.2, or set LCM_CHAT_MODEL"
)
HELP = "Type a message. /lcm says what is stored, /new and /reset begin afresh, /compact, /quit."


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command(rich_help_panel="Try it")(chat)


def chat(
    model: _Model = "",
    base_url: _BaseUrl = None,
    window: _Window = None,
    session: _Session = "agent:chat:main",
    database: _Database = None,
    allow_tools: _AllowTools = False,
) -> None:
    """Talk to a model with a memory that is never lost: a small agent host of our own.

    Needs the extra: `pip install 'lcm_plugin[litellm]'`.

    Examples: `lcm chat --model openai/gpt-5-mini` · `lcm chat -m ollama/llama3.2 --session agent:chat:garden`
    """
    if not model:
        complain(NO_MODEL)
        raise typer.Exit(USAGE)
    from rich.console import Console
    from rich.markdown import Markdown

    from lcm_plugin.config import LcmConfig
    from lcm_plugin.errors import ModelError
    from lcm_plugin.hosts.chat.agent import ChatAgent
    from lcm_plugin.hosts.chat.model import ChatModel
    from lcm_plugin.types import Session

    console = Console()
    config = LcmConfig(database=database) if database else LcmConfig()
    agent = ChatAgent(
        ChatModel(model, base_url, window),
        Session(session, f"chat-{os.getpid()}"),
        config,
        show=lambda piece: console.out(piece, end="", highlight=False),
        allow_tools=allow_tools,
    )
    console.print(HELP, style="dim")
    try:
        while (text := _read()) is not None:
            if not text.strip():
                continue
            result = agent.command(text)
            if result is not None:
                console.print(Markdown(result.text))
                continue
            try:
                agent.say(text)
                console.print()
            except ModelError as error:
                complain(str(error))
    finally:
        agent.close()
        if agent.turns:
            per_turn = 1000 * agent.waited.seconds / agent.turns
            console.print(f"{agent.turns} turns; the memory added {per_turn:.0f} ms to each", style="dim")


def _read() -> str | None:
    """The next line, or None at the end of the input or ``/quit``."""
    try:
        text = input("> ")
    except (EOFError, KeyboardInterrupt):
        return None
    return None if text.strip().lower() in ("/quit", "/exit") else text
