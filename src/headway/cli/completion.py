"""`headway completion`: what a shell needs to complete the verbs."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes bash, zsh or fish complete verbs and options.

    \b
    bash:  headway completion bash > ~/.local/share/bash-completion/completions/headway
    zsh:   eval "$(headway completion zsh)"      in ~/.zshrc
    fish:  headway completion fish > ~/.config/fish/completions/headway.fish
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    click.echo(kind(root.command, {}, "headway", "_HEADWAY_COMPLETE").source())
