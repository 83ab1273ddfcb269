"""The command line. Exit status 0: done; 1: a call or a drill failed; 2: something must change, as the message says.

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reliable_llm import __version__
from reliable_llm.commands.completion import SHELLS, names_a_file
from reliable_llm.commands.remedies import advice_for, remedy_for
from reliable_llm.errors import ConfigurationError, ReliableLLMError

if TYPE_CHECKING:
    from reliable_llm.chat import FailoverChat
    from reliable_llm.types import ChatReply


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        status = run(args)
        sys.stdout.flush()
    except ReliableLLMError as error:
        return _explain_failure(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone: keep the interpreter from flushing into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


_ABOUT = """\
LLM calls that keep answering: the next key, the next model or the next provider answers when one fails.

  reliable-llm drill                    see an outage, without any key
  reliable-llm init                     write llm.toml from the keys in the environment
  reliable-llm check llm.toml --call    is it right, and does each candidate answer?
  reliable-llm chat --config llm.toml "Name three rivers."
"""
_EXIT = "exit status: 0 done; 1 a call or a drill failed; 2 something must be changed, and the message says what"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reliable-llm", description=_ABOUT, epilog=_EXIT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"reliable-llm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, add, says, more in (
        ("chat", _add_chat, "make one real call and print the answer", _ABOUT_CHAT),
        ("init", _add_init, "write a commented configuration file from the keys in the environment", _ABOUT_INIT),
        ("check", _add_check, "say whether a configuration is right, and what it will do", _ABOUT_CHECK),
        ("status", _add_status, "show the candidates and keys that a call would use; sends nothing", ""),
        ("explain", _add_explain, "say what a failure means and what should be done about it", _ABOUT_EXPLAIN),
        ("drill", _add_drill, "rehearse outages on simulated vendors; needs no key", _ABOUT_DRILL),
        ("completion", _add_completion, "print a script by which a shell completes commands", _ABOUT_COMPLETION),
    ):
        about = f"{says[0].upper()}{says[1:]}.\n{more}"
        raw = argparse.RawDescriptionHelpFormatter
        add(commands.add_parser(name, help=says, description=about, formatter_class=raw))
    return parser


_ABOUT_CHAT = """
The answer goes to standard output; who gave it, and what was tried after a failure, to standard error.

  reliable-llm chat "Name three rivers." --model openai/gpt-5.1 --model anthropic/claude-sonnet-4-5
  git diff | reliable-llm chat - --system "Review this." --config llm.toml --stream
"""
_ABOUT_INIT = """
Timeouts, retries and recovery are in it with their defaults. Keys are not: it names the variables to read them from.

  reliable-llm init
  reliable-llm init team.toml --model openai/gpt-5.1 --model anthropic/claude-sonnet-4-5
"""
_ABOUT_CHECK = """
Reads the file, or the environment without one, and prints the candidates in their order and what each kind of
failure does. Sends nothing, unless --call is given.

  reliable-llm check llm.toml
  reliable-llm check llm.toml --call
"""
_ABOUT_EXPLAIN = """
A failure is an exception's text as a log has it, the body of an answer, or a row with status, headers and body.

  echo 'Error code: 429 - insufficient_quota' | reliable-llm explain -
  reliable-llm explain body.json --status 400 --vendor groq
"""
_ABOUT_DRILL = """
Real vendor clients, simulated vendors, virtual time: hours of outage pass in a second.

  reliable-llm drill
  reliable-llm drill --story vendor-down --html report.html
  reliable-llm drill my-outage.json --config llm.toml
"""
_ABOUT_COMPLETION = """
  reliable-llm completion bash > ~/.local/share/bash-completion/completions/reliable-llm
  reliable-llm completion zsh > ~/.zfunc/_reliable-llm
"""


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", help="what to ask; - reads it from standard input")
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument("--deadline", metavar="SECONDS", type=float, help="give up after this long, retries included")
    parser.add_argument("--stream", action="store_true", help="print the answer as it comes")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every attempt to standard error")
    _add_source(parser)
    parser.set_defaults(run=_chat)


def _add_status(parser: argparse.ArgumentParser) -> None:
    _add_source(parser)
    socket = parser.add_argument("--socket", metavar="PATH", help="ask a running application (serve_status) instead")
    names_a_file(socket)
    parser.add_argument("--watch", action="store_true", help="show a table and refresh it; needs --socket and rich")
    parser.add_argument("--every", metavar="SECONDS", type=float, default=1.0, help="how often (default 1)")
    parser.set_defaults(run=_status)


def _add_init(parser: argparse.ArgumentParser) -> None:
    file = parser.add_argument("file", metavar="FILE", nargs="?", default="llm.toml", help="default llm.toml; - prints")
    names_a_file(file)
    parser.add_argument(
        "--model",
        metavar="VENDOR/MODEL",
        action="append",
        help="a candidate to write down, in order; repeat it (instead of RELIABLE_LLM_MODELS)",
    )
    parser.set_defaults(run=_init)


def _add_check(parser: argparse.ArgumentParser) -> None:
    names_a_file(
        parser.add_argument("file", metavar="FILE", nargs="?", help="a TOML file; without it, the environment")
    )
    parser.add_argument("--call", action="store_true", help="send one short request to each candidate")
    parser.add_argument("--deadline", metavar="SECONDS", type=float, default=30.0, help="for each request (default 30)")
    parser.set_defaults(run=_check)


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_completion)


def _add_source(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    file = source.add_argument("--config", metavar="FILE", help="a TOML file; without it, the environment is read")
    names_a_file(file)
    source.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        action="append",
        help="a candidate, such as openai/gpt-5.1; repeat it for fallbacks (instead of RELIABLE_LLM_MODELS)",
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    file = parser.add_argument(
        "file", metavar="FILE", help="one failure as text, or one a line as JSON; - reads standard input"
    )
    names_a_file(file)
    parser.add_argument("--json", action="store_true", help="print one JSON object a failure")
    parser.add_argument("--status", metavar="N", type=int, help="the HTTP status that came with a bare body")
    parser.add_argument("--vendor", metavar="NAME", help="whose failure a bare body is, such as openai or groq")
    parser.set_defaults(run=_explain)


def _add_drill(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument("files", metavar="FILE", nargs="*", help="scenario files; default: the built-in story")
    parser.add_argument("--json", action="store_true", help="print one JSON object a scenario")
    page = parser.add_argument("--html", metavar="OUT", help="write a report that a browser shows")
    picture = parser.add_argument("--svg", metavar="OUT", help="write the timeline of one scenario as a picture")
    config = parser.add_argument("--config", metavar="FILE", help="rehearse with the policies of this TOML file")
    for argument in (files, page, picture, config):
        names_a_file(argument)
    parser.add_argument("--story", metavar="NAME", help="the built-in story to tell (drill names them all)")
    parser.add_argument("--seed", type=int, default=0, help="what chance is drawn from (default 0)")
    parser.set_defaults(run=_drill)


# ---------------------------------------------------------------- commands


def _chat(args: argparse.Namespace) -> int:
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if not prompt.strip():
        raise ConfigurationError("the prompt is empty: write one, or pipe it in and give - for it")
    _log_to_stderr(verbose=args.verbose)
    ask = _stream if args.stream else _ask
    reply = asyncio.run(ask(_coordinator(args), prompt, args))
    print(_footnote(reply), file=sys.stderr)
    return 0


async def _ask(chat: FailoverChat, prompt: str, args: argparse.Namespace) -> ChatReply:
    async with chat:
        reply = await chat(prompt, system=args.system, deadline=args.deadline)
    print(reply.text)
    return reply


async def _stream(chat: FailoverChat, prompt: str, args: argparse.Namespace) -> ChatReply:
    async with chat, chat.stream(prompt, system=args.system, deadline=args.deadline) as stream:
        try:
            async for text in stream.text_stream:
                print(text, end="", flush=True)
        finally:
            print()
        return await stream.reply()


def _status(args: argparse.Namespace) -> int:
    if args.socket or args.watch:
        return _watch(args)
    print(_coordinator(args).status())
    return 0


def _watch(args: argparse.Namespace) -> int:
    from reliable_llm.commands import watch

    if not args.socket:
        raise ConfigurationError("status --watch needs --socket PATH: the application opens it with serve_status()")
    return watch.run(args.socket, every=watch.pace(args.every), times=None if args.watch else 1)


def _init(args: argparse.Namespace) -> int:
    from reliable_llm.commands import init

    return init.run(args.file, args.model)


def _check(args: argparse.Namespace) -> int:
    from reliable_llm.commands import check

    _log_to_stderr(verbose=False)
    return check.run(args.file, call=args.call, deadline=args.deadline)


def _completion(args: argparse.Namespace) -> int:
    from reliable_llm.commands import completion

    return completion.run(args.shell, _parser())


def _explain(args: argparse.Namespace) -> int:
    from reliable_llm import explain

    return explain.run(args.file, as_json=args.json, status=args.status, vendor=args.vendor)


def _drill(args: argparse.Namespace) -> int:
    from reliable_llm.drill import command

    return command.run(args)


def _coordinator(args: argparse.Namespace) -> FailoverChat:
    from reliable_llm.chat import FailoverChat

    if args.config:
        return FailoverChat.from_toml(args.config)
    try:
        return FailoverChat.from_env(models=args.model)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}\nTo see it work without a key: reliable-llm drill") from None


def _log_to_stderr(*, verbose: bool) -> None:
    import logging

    import structlog

    structlog.configure(  # noqa: TID251 - here the command line is the application
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.CRITICAL),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _footnote(reply: ChatReply) -> str:
    tried = [f"  {attempt.number}. {attempt}, {attempt.elapsed:.2f} s" for attempt in reply.attempts]
    return "\n".join([f"answered by {reply.served_by}", *(tried if len(tried) > 1 else ())])


def _explain_failure(error: ReliableLLMError) -> int:
    """Print what failed where, and what to change; return the exit status."""
    where = f"{error.provider}/{error.model}" if error.provider else ""
    message = str(error) if where in str(error) else f"{where}: {error}"
    print(f"reliable-llm: {message}", file=sys.stderr)
    advice = advice_for(error)
    if advice:
        print(advice, file=sys.stderr)
    return 1 if remedy_for(error) is None else 2
