"""``lcm chat``."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from lcm_plugin.cli.errors import USAGE, complain
from lcm_plugin.text import harmless

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


class Waiting:
    """How long the agent waited for its memory. The hooks of a turn run one after the other, in one thread."""

    _IN_A_TURN = frozenset({"before_turn", "after_turn", "lcm_call_tool"})

    def __init__(self) -> None:
        self._turns = 0
        self._seconds = self._since = 0.0

    def begins(self, hook: str, *_: object) -> None:
        """Called by pluggy before a hook."""
        if hook in self._IN_A_TURN:
            self._since = time.perf_counter()

    def ended(self, _outcome: object, hook: str, *_: object) -> None:
        """Called by pluggy after a hook."""
        if hook in self._IN_A_TURN:
            self._seconds += time.perf_counter() - self._since
            self._turns += hook == "after_turn"

    def report(self) -> str:
        """The line at the end of a chat."""
        per_turn = 1000 * self._seconds / max(1, self._turns)
        return f"{self._turns} turns; the memory added {per_turn:.0f} ms to each"


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
    from rich.markdown import Markdown

    from lcm_plugin.cli.tables import HarmlessConsole
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.errors import ModelError
    from lcm_plugin.hosts.chat.agent import ChatAgent
    from lcm_plugin.hosts.chat.model import ChatModel
    from lcm_plugin.types import Session

    console = HarmlessConsole(emoji=False)
    config = LcmConfig(database=database) if database else LcmConfig()
    agent = ChatAgent(
        ChatModel(model, base_url, window),
        Session(session, f"chat-{os.getpid()}"),
        config,
        show=lambda piece: console.out(harmless(piece), end="", highlight=False),
        allow_tools=allow_tools,
    )
    waiting = Waiting()
    agent.manager.add_hookcall_monitoring(waiting.begins, waiting.ended)
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
                if news := agent.news():
                    complain(news)
            except ModelError as error:
                complain(str(error))
    finally:
        agent.close()
        console.print(waiting.report(), style="dim")


def _read() -> str | None:
    """The next line, or None at the end of the input or ``/quit``."""
    try:
        text = input("> ")
    except (EOFError, KeyboardInterrupt):
        return None
    return None if text.strip().lower() in ("/quit", "/exit") else text
