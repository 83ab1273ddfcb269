"""The exceptions that a real socket gives, made by hand."""

from __future__ import annotations

import asyncio
import builtins
import re
import socket
import ssl
from typing import Final

import anyio
import httpx2

CUT: Final = "peer closed connection without sending complete message body (incomplete chunked read)"
_SOURCES: Final = {"httpx2": httpx2, "httpx": httpx2, "ssl": ssl, "socket": socket, "asyncio": asyncio, "anyio": anyio}


def refused() -> httpx2.ConnectError:
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = ConnectionRefusedError(111, "Connect call failed")
    return error


def reset(*, after_headers: bool) -> httpx2.TransportError:
    if after_headers:
        error: httpx2.TransportError = httpx2.ReadError("")
        error.__cause__ = ConnectionResetError(104, "Connection reset by peer")
        return error
    return httpx2.RemoteProtocolError("Server disconnected without sending a response.")


def cut() -> httpx2.TransportError:
    return httpx2.RemoteProtocolError(CUT)


def silence(phase: str) -> httpx2.TimeoutException:
    kinds = {"connect": httpx2.ConnectTimeout, "pool": httpx2.PoolTimeout}
    return kinds.get(phase, httpx2.ReadTimeout)("")


def named(text: str) -> BaseException:
    """Return the exception that *text* names, such as `KeyboardInterrupt`, `ssl.SSLError` or `RuntimeError('bug')`.

    Raises `ValueError` where there is no such exception.
    """
    found = re.fullmatch(r"(?:raises? )?(?:(\w+)\.)?(\w+)(?:\((.*)\))?", text.strip(), re.DOTALL)
    module = None if found is None else builtins if found[1] in (None, "builtins") else _SOURCES.get(found[1])
    kind = getattr(module, found[2], None) if found and module else None
    if kind is None and found and not found[1]:
        kind = getattr(httpx2, found[2], None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise ValueError(f"exception {text!r}: not known")
    words = re.fullmatch(r"\s*(['\"]?)(.*?)\1\s*", found[3] or "", re.DOTALL) if found else None
    return _made(kind, words[2] if words else "", text)


def _made(kind: type[BaseException], words: str, text: str) -> BaseException:
    for given in ((words,), ()) if words else ((), ("",)):
        try:
            return kind(*given)
        except TypeError:
            continue
    raise ValueError(f"exception {text!r}: cannot be made from a text")
