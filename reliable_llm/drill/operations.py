"""What an application does with a coordinator: ask, stream, reset, close, look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reliable_llm.drill import observe, phrases
from reliable_llm.drill.asking import Conversations, options
from reliable_llm.drill.clock import DrillClock
from reliable_llm.drill.scenario import Call
from reliable_llm.drill.vendors import faults
from reliable_llm.types import (
    Continued,
    Finished,
    ReasoningDelta,
    Restarted,
    StreamEvent,
    TextDelta,
    ToolCallStarted,
)

if TYPE_CHECKING:
    from reliable_llm.chat import FailoverChat
    from reliable_llm.stream import ChatStream

Json = dict[str, object]
_PASSED_THROUGH: Final = {"cancelled", "caller_timeout"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`what` is ok or raises. `cut_off` tells that the application itself ended the call."""

    what: str
    figures: Json

    @property
    def cut_off(self) -> bool:
        return self.figures.get("kind") in _PASSED_THROUGH


_OUTPUT: Final = (TextDelta, ReasoningDelta, ToolCallStarted)


class Performer:
    """Carries out one call of a scenario and says what came of it."""

    def __init__(
        self,
        chat: Callable[[str | None], FailoverChat],
        talk: Conversations,
        clock: DrillClock,
        own_errors: Callable[[], Sequence[BaseException]],
        deadline: float | None,
        keys: Mapping[str, str],
        note: Callable[[str, str, Json], None],
    ) -> None:
        self._chat = chat
        self._talk = talk
        self._clock = clock
        self._own_errors = own_errors
        self._deadline = deadline
        self._keys = keys
        self._note = note
        self._consumer_errors: list[BaseException] = []
        self._streams: dict[str, ChatStream] = {}

    async def perform(self, call: Call, name: str) -> Outcome:
        """Do it. Whatever is raised, `KeyboardInterrupt` too, is the outcome."""
        seen: list[StreamEvent] = []
        try:
            async with phrases.time_limit(call.wrapped_in) if call.wrapped_in else nullcontext():
                return Outcome("ok", await self._operation(call.op)(call, name, seen))
        except BaseException as error:  # noqa: BLE001 - what passes through is what the drill is about
            return self._raised(error, call, name, seen)

    def _raised(self, error: BaseException, call: Call, name: str, seen: Sequence[StreamEvent]) -> Outcome:
        own = [*self._own_errors(), *self._consumer_errors]
        figures = observe.raised(error, self._keys, own=own, limited=call.wrapped_in is not None)
        if call.op == "stream":
            if seen:
                length = len(observe.text_since_restart(seen))
                self._note("streamed", name, {"step": f"breaks off after {length} characters"})
            figures |= {"partial_text": figures.get("partial_text", observe.text_since_restart(seen))}
            if name in self._streams and "usage" not in figures:
                figures["usage"] = observe.tokens(self._streams[name].usage)
        if call.then and ("pickle" in call.then or "copy" in call.then):
            figures["after_roundtrip"] = observe.survives_copying(error)
        return Outcome("raises", figures)

    def _operation(self, op: str) -> Callable[[Call, str, list[StreamEvent]], Awaitable[Json]]:
        return {
            "chat": self._ask,
            "structured": self._ask,
            "stream": self._stream,
            "construct": self._construct,
            "reset": self._reset,
            "aclose": self._close,
            "inspect": self._inspect,
            "wall_clock_jump": self._jump,
        }[op]

    async def _ask(self, call: Call, name: str, _seen: list[StreamEvent]) -> Json:
        sent = self._talk.messages(call)
        reply = await self._chat(call.on)(sent, **options(call, self._talk, self._deadline))  # type: ignore[arg-type]
        self._talk.remember(name, sent, reply.message)
        return observe.answered(reply, self._keys)

    async def _stream(self, call: Call, name: str, seen: list[StreamEvent]) -> Json:
        sent = self._talk.messages(call)
        given = options(call, self._talk, self._deadline)
        if call.on_interrupt is not None:
            given["on_interrupt"] = call.on_interrupt
        async with self._chat(call.on).stream(sent, **given) as stream:  # type: ignore[arg-type]
            self._streams[name] = stream
            if await self._read(stream, call, name, seen):
                return observe.left(stream, seen)
            reply = await stream.reply()
        self._talk.remember(name, sent, reply.message)
        return observe.answered(reply, self._keys) | observe.streamed(seen)

    async def _read(self, stream: ChatStream, call: Call, name: str, seen: list[StreamEvent]) -> bool:
        """Read on as the scenario's consumer does; return whether it has left before the end."""
        reader = phrases.consumer(call.consumer)
        cancel_after = phrases.chunk_count(call.cancel_at) if isinstance(call.cancel_at, str) else None
        task = asyncio.current_task()
        if reader.stop_after == 0:
            return True
        async for event in stream:
            self._tell_stream(name, event, seen)
            seen.append(event)
            texts = sum(isinstance(each, TextDelta) for each in seen)
            if reader.stop_after is not None and texts >= reader.stop_after:
                return self._leaves(reader)
            if isinstance(event, TextDelta) and reader.pause:
                await asyncio.sleep(reader.pause)
            if isinstance(event, TextDelta) and texts == cancel_after and task is not None:
                task.cancel()
        return False

    def _tell_stream(self, name: str, event: StreamEvent, seen: Sequence[StreamEvent]) -> None:
        """Note when a stream gives its first output, ends, and goes on elsewhere."""
        begun = any(isinstance(each, _OUTPUT) for each in seen)
        if isinstance(event, _OUTPUT) and not begun:
            self._note("streamed", name, {"step": "first token"})
        elif isinstance(event, Finished):
            self._note("streamed", name, {"step": "last token"})
        elif isinstance(event, Restarted | Continued):
            step = "starts anew" if isinstance(event, Restarted) else "goes on elsewhere"
            self._note("streamed", name, {"step": f"broke off ({event.cause}) and {step}"})

    def _leaves(self, reader: phrases.Consumer) -> bool:
        if reader.fails is None:
            return True
        error = faults.named(reader.fails)
        self._consumer_errors.append(error)
        raise error

    async def _construct(self, call: Call, _name: str, _seen: list[StreamEvent]) -> Json:
        self._chat(call.on)
        return {"constructed": True}

    async def _reset(self, call: Call, _name: str, _seen: list[StreamEvent]) -> Json:
        self._chat(call.on).reset(call.provider)
        return {}

    async def _close(self, call: Call, _name: str, _seen: list[StreamEvent]) -> Json:
        await self._chat(call.on).aclose()
        return {}

    async def _jump(self, call: Call, _name: str, _seen: list[StreamEvent]) -> Json:
        jumps = (call.by_s, call.by, call.seconds, call.jump_s, call.delta_s)
        self._clock.jump(next((each for each in jumps if each is not None), 0.0))
        return {}

    async def _inspect(self, call: Call, _name: str, _seen: list[StreamEvent]) -> Json:
        chat = self._chat(call.on)
        shown = " ".join([repr(chat), str(chat), repr(vars(chat)), repr(chat.status()), str(chat.status())])
        return {"contains_key": any(secret in shown for secret in self._keys.values())}
