"""docs/reference/config.md, made from the tables themselves: `python -m headway.config.reference > FILE`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from headway.config.problems import model_in
from headway.config.schema import NAMED, Config, Table
from headway.core.units import duration_text, size_text

_INTRO = """\
# Config reference

Made from the code by `python -m headway.config.reference`; a test keeps it so. A whole example:
[example.toml](../example.toml).

- **Durations**: `"90s"`, `"10min"`, `"1h30min"` (units d, h, min, s, ms), or a number of seconds.
- **Sizes**: `"16GiB"`, `"400MiB"` (powers of 1024), `"16GB"` (powers of 1000), or a whole number of bytes.
- **Commands** are lists of words: `["python", "train.py"]`. There is no shell.
- **Paths** that are relative start at the directory of the config file; `~` is expanded.
- **Names** of devices, services and jobs: 1 to 64 of `a-z`, `0-9`, `.`, `-`, `_`, the first a letter or digit.
  Services and jobs share their names.
- **Words of your own**: with `[vars] models = "~/models"`, `"{models}/a.gguf"` is the path of that file, in every text
  of the other tables. `{name}` is replaced as it stands and once; what is not in [vars] stays, and so do the braces of
  JSON. A value that begins with `~` is expanded. `{port}` is not yours: it is the free port of a server that starts.
- **More files**: `conf.d/*.toml` beside the file; each table in one file only.
- **Environment**: `HEADWAY_CFG__GATE__PORT=9000` overrides `[gate] port`, `HEADWAY_CFG__SERVICE__CHAT__PINNED=true`
  a key of `[service.chat]` (`_` stands for dash and dot in a name). Set but empty clears the key.
- **Editors**: `headway config schema` prints the JSON Schema; the first line that `headway init` writes names its file.
- **A changed file** counts after `headway config apply` or SIGHUP: see [how to](../howto/config.md).
- An unknown key is an error, and so is a value outside its limits. `headway check` names every problem at once.
  It also warns of what is allowed and probably not meant, such as a program or a device that is not there; `--strict`
  makes it fail (exit status 78) for those too.
"""
_REPORTS = """\
A **report** of a simulated device is a file in `reports`, one for each process, with one JSON object:

```json
{"device": "sim0", "pid": 4711, "bytes": 8589934592, "start_ticks": 123456}
```

`start_ticks` is field 22 of `/proc/PID/stat`. Write the file under a name that begins with a dot, then rename it;
remove it when the memory is given back. A report counts while the process that it names lives. A report or a directory
that cannot be read makes the device unknown, and nothing starts on it.
"""
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "table of texts",
}


def reference() -> str:
    """The whole page, in Markdown."""
    schema = Config.model_json_schema()
    parts = [_INTRO, "## Top of the file\n", _table(Config, schema, schema, only=("mode", "vars"))]
    for name, info in Config.model_fields.items():
        model = model_in(info.annotation)
        if model is not None and issubclass(model, Table):
            title = f"[{name}.NAME]" if name in NAMED else f"[{name}]"
            parts += [f"## `{title}`\n", f"{_plain(model.__doc__)}\n"]
            parts += [_table(model, schema["$defs"][model.__name__], schema)]
            parts += [_REPORTS] if name == "device" else []
    return "\n".join(parts)


def _table(
    model: type[Table], own: Mapping[str, Any], whole: Mapping[str, Any], only: tuple[str, ...] = ()
) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for row in _rows(model, own, whole, only):
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _rows(
    model: type[Table],
    own: Mapping[str, Any],
    whole: Mapping[str, Any],
    only: tuple[str, ...],
    before: str = "",
    about: str = "",
) -> Iterator[tuple[str, str, str, str]]:
    own_keys_first = sorted(model.model_fields.items(), key=lambda item: item[0] not in model.__annotations__)
    for key, info in own_keys_first:
        if only and key not in only:
            continue
        inner = model_in(info.annotation)
        if inner is not None and issubclass(inner, Table):
            definition = whole["$defs"][inner.__name__]
            yield from _rows(inner, definition, whole, (), f"{before}{key}.", f"{info.description} ")
            continue
        said = own["properties"][key]
        form = next((part for part in said.get("anyOf", ()) if part.get("type") != "null"), said)
        form = said if said.get("format") == "priority" else form
        needed = info.is_required()
        default = "**needed**" if needed else _default(info.get_default(call_default_factory=True), form)
        yield f"`{before}{key}`", _value(form), default, _plain(f"{about}{info.description}")


def _value(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{json.dumps(word)}`" for word in form["enum"])
    word = form.get("format") or _TYPES[form["type"]]
    limits = [
        f"{words} {form[limit]:g}"
        for limit, words in (
            ("minimum", "from"),
            ("exclusiveMinimum", "more than"),
            ("gt", "more than"),
            ("maximum", "to"),
            ("exclusiveMaximum", "less than"),
        )
        if limit in form
    ]
    return f"{word}, {', '.join(limits)}" if limits else str(word)


def _default(value: object, form: Mapping[str, Any]) -> str:
    if value is None or value in ((), {}):
        return ""
    if form.get("format") == "duration" and isinstance(value, float):
        value = duration_text(value)
    elif form.get("format") == "size" and isinstance(value, int):
        value = size_text(value)
    return f"`{json.dumps(value)}`"


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
