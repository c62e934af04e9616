"""What a model server costs and does, in words: its measured moves, and what it says of itself."""

from __future__ import annotations

from typing import Any

from headway.cli.tables import age

ENGINE = (
    ("tokens_per_s", "{:.4g} tokens/s"),
    ("first_token_s", "first token after {:.3g} s"),
    ("cache_share", "KV cache {:.0%} used"),
    ("prefix_hit_share", "{:.0%} of its prompts from the prefix cache"),
)


def figures(row: dict[str, Any]) -> dict[str, str]:
    """Those of the row of a service, each by what it is called; nothing where nothing is known."""
    found = {f"{one['form']} takes": _times(one) for one in row.get("times") or ()}
    engine = row.get("engine") or {}
    if said := [words.format(engine[key]) for key, words in ENGINE if engine.get(key) is not None]:
        found["engine"] = ", ".join(said)
    if (budget := row.get("budget")) is not None:
        found["waits in 24 h"] = (
            f"{budget['share']:.1%} of {budget['requests']:.0f} requests (at most {budget['max_share']:.0%}), "
            f"{budget['mean_s']:.2f} s on average (at most {budget['max_mean_s']:g} s)"
        )
    return found


def _times(one: dict[str, Any]) -> str:
    ways = (("down", one["down_s"]), ("back", one["back_s"]))
    return ", ".join(f"{age(seconds)} {way}" for way, seconds in ways if seconds is not None)
