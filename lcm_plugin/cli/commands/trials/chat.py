"""``lcm chat``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.errors import USAGE, complain
from lcm_plugin.cli.output import say
from lcm_plugin.text import harmless

if TYPE_CHECKING:
    from lcm_plugin.hosts.chat.agent import ChatAgent

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
HELP = "Type a message. /lcm says what is stored, /new and /reset begin afresh, /compact, /quit. Ctrl-C stops an answer."
_COMMAND = re.compile(r"/[a-z][a-z_-]*(?=\s|$)", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
_CALL_LINE = 100


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


class Paragraphs:
    """An answer as it is rendered: paragraph by paragraph, each once it is whole."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._pending = ""

    def add(self, piece: str) -> None:
        """Takes the next piece of the answer."""
        self._pending += piece
        end = self._pending.rfind("\n\n")
        while end > 0:
            # A paragraph's end within code is none.
            if len(_FENCE.findall(self._pending[:end])) % 2 == 0:
                self._flush(end)
                return
            end = self._pending.rfind("\n\n", 0, end)

    def end(self) -> None:
        """The answer is over, or was stopped."""
        self._flush(len(self._pending))

    def _flush(self, end: int) -> None:
        done, self._pending = self._pending[:end], self._pending[end:].lstrip("\n")
        if done.strip():
            self._write(done)


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
    from lcm_plugin.hosts.chat.agent import ChatAgent
    from lcm_plugin.hosts.chat.model import ChatModel
    from lcm_plugin.types import Session

    console = HarmlessConsole(emoji=False)
    config = LcmConfig(database=database) if database else LcmConfig()
    asked = ChatModel(model, base_url, window)
    if problem := asked.problem():
        complain(problem)
        raise typer.Exit(USAGE)
    answer = Paragraphs(lambda text: console.print(Markdown(text, hyperlinks=False)))

    def show(piece: str) -> None:
        if console.is_terminal:
            answer.add(piece)
        else:
            console.out(harmless(piece), end="", highlight=False)

    def called(name: str, arguments: str) -> None:
        answer.end()
        line = " ".join(arguments.split())
        shown = line if len(line) <= _CALL_LINE else f"{line[: _CALL_LINE - 1]}…"
        console.print(f"· {name} {shown}", style="dim", markup=False, highlight=False)

    agent = ChatAgent(
        asked,
        Session(session, f"chat-{os.getpid()}"),
        config,
        show=show,
        called=called,
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
            elif unknown := _COMMAND.match(text):
                complain(f"there is no command {unknown[0]}; {HELP}")
            else:
                _turn(agent, text, answer)
    finally:
        agent.close()
        console.print(waiting.report(), style="dim")


def _turn(agent: ChatAgent, text: str, answer: Paragraphs) -> None:
    """One turn. Ctrl-C stops the answer, not the program."""
    from lcm_plugin.errors import ModelError

    try:
        agent.say(text)
        answer.end()
        say("")
        if news := agent.news():
            complain(news)
    except ModelError as error:
        answer.end()
        complain(str(error))
    except KeyboardInterrupt:
        answer.end()
        say("\n(stopped)")


def _read() -> str | None:
    """The next line, or None at the end of the input or ``/quit``; Ctrl-C drops the line."""
    while True:
        try:
            text = input("> ")
        except EOFError:
            return None
        except KeyboardInterrupt:
            say("\n(Ctrl-D or /quit ends)")
            continue
        break
    return None if text.strip().lower() in ("/quit", "/exit") else text
