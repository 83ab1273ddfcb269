"""The command line. Exit status 0: done; 1: a call or a drill failed; 2: something must change, as the message says.

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from reliable_llm import __version__
from reliable_llm.errors import ConfigurationError, Kind, ReliableLLMError

if TYPE_CHECKING:
    from reliable_llm.chat import FailoverChat
    from reliable_llm.types import ChatReply

# What to change, for the failures that only a change can mend.
_REMEDIES: Final = {
    Kind.AUTHENTICATION: "the key was refused: copy it again from the vendor's page into {key}",
    Kind.PERMISSION: "the key may not use this model: choose another model, or allow it on the vendor's page",
    Kind.MODEL_NOT_FOUND: "no such model there: correct its name in --model, RELIABLE_LLM_MODELS or the file",
    Kind.INVALID_REQUEST: "the request was refused: correct the prompt or the options",
    Kind.CONFIGURATION: "",
}


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reliable-llm", description="LLM calls that keep answering.")
    parser.add_argument("--version", action="version", version=f"reliable-llm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_chat(commands.add_parser("chat", help="make one real call and print the answer"))
    _add_status(commands.add_parser("status", help="show the candidates and keys that a call would use; sends nothing"))
    _add_explain(commands.add_parser("explain", help="say what a failure means and what should be done about it"))
    _add_drill(commands.add_parser("drill", help="rehearse outages on simulated vendors; needs no key"))
    return parser


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
    parser.set_defaults(run=_status)


def _add_source(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--config", metavar="FILE", help="a TOML file; without it, the environment is read")
    source.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        action="append",
        help="a candidate, such as openai/gpt-5.1; repeat it for fallbacks (instead of RELIABLE_LLM_MODELS)",
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="one failure a line, as JSON; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object a failure")
    parser.add_argument("--status", metavar="N", type=int, help="the HTTP status that came with a bare body")
    parser.add_argument("--vendor", metavar="NAME", help="whose failure a bare body is, such as openai or groq")
    parser.set_defaults(run=_explain)


def _add_drill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="scenario files; without one, the built-in story is told"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a scenario")
    parser.add_argument("--html", metavar="OUT", help="write a report that a browser shows")
    parser.add_argument("--config", metavar="FILE", help="rehearse with the policies of this TOML file")
    parser.add_argument("--story", metavar="NAME", help="the built-in story to tell")
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
    print(_coordinator(args).status())
    return 0


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
    remedy = _REMEDIES.get(error.kind)
    if remedy:
        print(remedy.format(key=f"{str(error.provider).upper()}_API_KEY or the file"), file=sys.stderr)
    return 1 if remedy is None else 2
