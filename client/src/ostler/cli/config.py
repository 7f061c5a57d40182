"""`config` and `completion`: addresses and keys by profile, and what a shell needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ostler.cli.arguments import complete_profiles, pass_session
from ostler.cli.session import USAGE, Session, fail, json_option, say, yes_option
from ostler.cli.tables import table

if TYPE_CHECKING:
    import configparser

_profile = click.argument("profile", shell_complete=complete_profiles)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def config(context: click.Context) -> None:
    """Addresses and keys; without a command: which ones are used now, and why."""
    if context.invoked_subcommand is None:
        session = context.find_object(Session)
        if session is None:
            return
        found = session.target
        shown = {"url": found.url, "source": found.source, "key": bool(found.key)}
        key = "with a key" if found.key else "without a key"
        session.show(shown, [f"{found.url} ({found.source}, {key})"])


@config.command("set")
@_profile
@click.option("--url", required=True, help="Address of the service.")
@click.option("--key", help="API key; asked for if not given, `-` reads it from stdin.")
def set_profile(profile: str, url: str, key: str | None) -> None:
    """Store a profile, and use it from now on."""
    from ostler.config import read_profiles, write_profiles

    key = _read_key(key)
    profiles = read_profiles()
    if not profiles.has_section(profile):
        profiles.add_section(profile)
    profiles[profile]["url"], profiles[profile]["key"] = url, key
    profiles.set(profiles.default_section, "profile", profile)
    say(f"Stored in {write_profiles(profiles)}; {profile} is used from now on.")


def _read_key(given: str | None) -> str:
    """From stdin or a hidden question, so that it is in no shell's history."""
    if given == "-":
        return sys.stdin.readline().strip()
    if given:
        return given
    if not sys.stdin.isatty():
        fail("There is no terminal to ask for the key on.", "Add --key, or --key - and pipe it in.", USAGE)
    return str(click.prompt("API key", hide_input=True, err=True))


@config.command("list")
@json_option
@pass_session
def list_profiles(session: Session) -> None:
    """Profiles that are stored; keys are not shown."""
    from ostler.config import read_profiles

    profiles = read_profiles()
    used = profiles.defaults().get("profile")
    found = [
        {"profile": name, "url": profiles[name].get("url", ""), "used": name == used}
        for name in profiles.sections()
    ]
    rows = [["PROFILE", "URL", "USED"]]
    rows += [[str(one["profile"]), str(one["url"]), "yes" if one["used"] else ""] for one in found]
    session.show(found, table(rows, plain=session.plain))


def _known(profile: str) -> configparser.ConfigParser:
    from ostler.config import NotConfigured, read_profiles

    profiles = read_profiles()
    if not profiles.has_section(profile):
        raise NotConfigured(f"No profile is called {profile}. See: ostler config list")
    return profiles


@config.command("use")
@_profile
def use_profile(profile: str) -> None:
    """Use a stored profile from now on."""
    from ostler.config import write_profiles

    profiles = _known(profile)
    profiles.set(profiles.default_section, "profile", profile)
    write_profiles(profiles)
    say(f"{profile} is used from now on.")


@config.command("rm")
@_profile
@yes_option
@pass_session
def remove_profile(session: Session, profile: str) -> None:
    """Forget a profile and its key."""
    from ostler.config import write_profiles

    profiles = _known(profile)
    session.confirm(f"Forget {profile}?")
    profiles.remove_section(profile)
    if profiles.defaults().get("profile") == profile:
        profiles.remove_option(profiles.default_section, "profile")
    write_profiles(profiles)
    say(f"{profile} is forgotten.")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """What makes the shell complete commands, options and names of instances.

    \b
    bash: eval "$(ostler completion bash)"   in ~/.bashrc
    zsh:  eval "$(ostler completion zsh)"    in ~/.zshrc, after compinit
    fish: ostler completion fish > ~/.config/fish/completions/ostler.fish
    """
    from click.shell_completion import get_completion_class

    if shell == "bash":
        click.echo(_BASH)
        return
    made = get_completion_class(shell)
    if made is None:
        fail(f"Nothing is known of {shell}.", "", USAGE)
    click.echo(made(context.find_root().command, {}, "ostler", "_OSTLER_COMPLETE").source())


# click's own drops backslashes and expands `*`: of a name with either, another one would be made.
_BASH = r"""_ostler_completion() {
    local IFS=$'\n' kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        [[ $kind == plain ]] && COMPREPLY+=("$value")
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" _OSTLER_COMPLETE=bash_complete "$1")
    return 0
}
complete -o nosort -F _ostler_completion ostler 2> /dev/null || complete -F _ostler_completion ostler"""

COMMANDS = (config, completion)
