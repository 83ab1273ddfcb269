"""`reliable-llm init`: a commented TOML file from the keys that the environment holds. No key is written."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reliable_llm.commands.settings import settings_of, summary_of
from reliable_llm.config import MODELS_VARIABLE, key_variable, usual_key_variable, vendors_with_key
from reliable_llm.config_clouds import is_signed
from reliable_llm.errors import ConfigurationError
from reliable_llm.policy import RecoveryPolicy, RetryPolicy, Timeouts
from reliable_llm.tomlfile import nearest
from reliable_llm.vendors import VENDORS, VendorPreset

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_TABLES: Final[Mapping[str, type[DataclassInstance]]] = {
    "timeouts": Timeouts,
    "retry": RetryPolicy,
    "recovery": RecoveryPolicy,
}

# For what has no default: seconds, as all of those.
_EXAMPLE: Final = "30.0    # for example; not set by default"


@dataclass(frozen=True, slots=True)
class Found:
    """A vendor to write down: the variable that holds its key, whether it is set, and the models asked for."""

    preset: VendorPreset
    variable: str
    is_set: bool
    models: tuple[str, ...]


def run(path: str, models: Iterable[str] | None, environ: Mapping[str, str] = os.environ) -> int:
    """Write *path*; "-" is standard output. Raises `ConfigurationError` where it exists or cannot be written."""
    found = find(models, environ)
    text = "".join(f"{line}\n" for line in _file(path, found, _others(found, environ)))
    if path == "-":
        sys.stdout.write(text)
        return 0
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists and was left as it is: give another name, or move it away") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror}): choose another place") from None
    print(_told(path, found))
    return 0


def find(models: Iterable[str] | None, environ: Mapping[str, str]) -> list[Found]:
    """Return the vendors with a key in *environ*, and those of *models* (`vendor/model`; None: the usual variable)."""
    place = MODELS_VARIABLE if models is None else "--model"
    listed = environ.get(MODELS_VARIABLE, "").replace(",", " ").split() if models is None else models
    asked: dict[str, list[str]] = {}
    for text in listed:
        vendor, slash, model = text.partition("/")
        if not slash or not model:
            raise ConfigurationError(f"{place}: {text!r} names no vendor: write it as openai/{text}")
        if vendor not in VENDORS:
            raise ConfigurationError(f"{place}: unknown vendor {vendor!r}{nearest(vendor, list(VENDORS))}")
        asked.setdefault(vendor, []).append(model)
    # The order asked for is the order of preference; vendors that only have a key come after.
    names = [
        *asked,
        *(preset.name for preset in vendors_with_key(environ) if preset.name not in asked),
    ]
    if not names:
        raise ConfigurationError(
            "no API key is set: set OPENAI_API_KEY, ANTHROPIC_API_KEY or the variable of another vendor first, or name "
            "a model whose key comes later, such as --model openai/<model>"
        )
    return [_found(VENDORS[name], asked.get(name, ()), environ) for name in names]


def _found(preset: VendorPreset, models: Sequence[str], environ: Mapping[str, str]) -> Found:
    variable = key_variable(environ, preset)
    return Found(
        preset=preset,
        variable=variable or usual_key_variable(preset),
        is_set=variable is not None,
        models=tuple(models),
    )


def _others(found: Sequence[Found], environ: Mapping[str, str]) -> list[VendorPreset]:
    written = {each.preset.name for each in found}
    return [preset for preset in VENDORS.values() if preset.name not in written and key_variable(environ, preset)]


# ---------------------------------------------------------------- the text


def _file(path: str, found: Sequence[Found], others: Sequence[VendorPreset]) -> Iterator[str]:
    name = "llm.toml" if path == "-" else path
    yield "# Where calls go, and what happens when one fails. All durations are seconds."
    yield "# A line such as `# attempt = 120.0` is a default: take the # away and change it."
    yield "#"
    yield f"#   reliable-llm check {name}             is it right, and what will it do?"
    yield f'#   FailoverChat.from_toml("{name}")      in a program'
    yield "#"
    yield "# No key is in here: keys_env names the environment variables to read them from."
    yield ""
    yield from _route(found)
    for each in found:
        yield ""
        yield from _provider(each)
    for preset in others:
        yield ""
        yield f'# {preset.key_variable} is set, too. To use it: a [[providers]] table with vendor = "{preset.name}".'
    for table, policy in _TABLES.items():
        yield ""
        yield from _settings(table, policy)


def _route(found: Sequence[Found]) -> Iterator[str]:
    listed = [f"{each.preset.name}/{model}" for each in found for model in each.models]
    example = listed or [f"{each.preset.name}/<model>" for each in found]
    yield "# The candidates in the order they are tried. Without it: every provider of the first model, then the next."
    yield ("" if listed else "# ") + f"route = [{_quoted(example)}]"


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _provider(found: Found) -> Iterator[str]:
    preset = found.preset
    yield "[[providers]]"
    yield _noted(f'kind = "{preset.sdk}"', "the protocol that it speaks: openai, anthropic or gemini")
    yield f'name = "{preset.name}"'
    if preset.name != preset.sdk:
        yield _noted(f'vendor = "{preset.name}"', "how its failures are read")
    if is_signed(preset.name):
        yield from _signing(found)
    else:
        yield _noted(f'keys_env = ["{found.variable}"]', _about_keys(found))
    if found.models:
        yield f"models = [{_quoted(found.models)}]"
    else:
        yield _noted("models = []", "name at least one, as the vendor calls it")
    if preset.base_url is None and not is_signed(preset.name):
        yield _noted('base_url = "https://..."', "the address of your account")
    elif preset.base_url is not None:
        yield f'# base_url = "{preset.base_url}"'
    yield _noted("# max_concurrency = 20", "requests under way at once; without it, there is no limit")
    yield _noted("# limits = {}", "the pace of each key, from the vendor's headers or as you say, such as")
    yield "# limits = { requests_per_minute = 60, tokens_per_minute = 100000, max_concurrency = 4 }"


def _signing(found: Found) -> Iterator[str]:
    """Yield what a cloud's own client signs requests with; no key is needed where somebody is signed in."""
    if found.preset.name == "bedrock":
        yield _noted('region = "us-east-1"', "yours")
        mark = "" if found.is_set else "# "
        yield _noted(f'{mark}keys_env = ["{found.variable}"]', "an API key of Bedrock's; else AWS signs you in")
    else:
        yield _noted('region = "global"', "or one of Google's regions")
        yield _noted('project = "my-project"', "yours; Google's default credentials sign you in")


def _noted(setting: str, note: str) -> str:
    return f"{setting + ' ':<36}# {note}"


def _about_keys(found: Found) -> str:
    if not found.is_set:
        return "not set yet"
    if found.variable.endswith("KEYS"):
        return "one or several, separated by commas"
    return f"for several, separated by commas, set {found.variable}S and name that"


def _settings(table: str, policy: type[DataclassInstance]) -> Iterator[str]:
    yield f"# {summary_of(policy)}"
    yield f"[{table}]"
    told = ""
    for setting in settings_of(policy):
        if setting.says != told:  # fields that one sentence explains stand together below it
            yield from textwrap.wrap(setting.says, width=116, initial_indent="# ", subsequent_indent="# ")
            told = setting.says
        yield f"# {setting.name} = {setting.toml or _EXAMPLE}"


def _told(path: str, found: Sequence[Found]) -> str:
    lines = [f"wrote {path}"]
    for each in found:
        where = f"keys from {each.variable}" + ("" if each.is_set else ", which is not set yet")
        if is_signed(each.preset.name) and not each.is_set:
            where = "whoever is signed in there"
        lines.append(f"  {each.preset.name}: {where}; models: {', '.join(each.models) or 'none yet'}")
    empty = any(not each.models for each in found)
    todo = "name the models in it, then: " if empty else ""
    return "\n".join([*lines, f"next: {todo}reliable-llm check {path}"])
