"""Checks of Headway itself: its config, daemon, gate and ports; and of what runs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from headway.config.schema import Config
from headway.doctor.around import Around
from headway.doctor.finding import Finding, ok, problem, unknown, warning

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
HERE = ("127.0.0.1", "127.0.0.0/8", "*")


def config(a: Around) -> Finding:
    """What `headway check` says, in one line."""
    if a.checked is None:
        return unknown("the config could not be read in time", "headway check")
    if not a.paths.config_file.exists():
        return warning(f"there is no {a.paths.config_file}", "`headway up` does not start", "headway init")
    if wrong := a.checked.problems:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return problem(
            f"{wrong[0]}{more}", "`headway up` does not start, and no change is taken", "headway check"
        )
    if doubts := a.checked.warnings:
        more = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
        return warning(f"{doubts[0]}{more}", "it is allowed, and probably not meant", "headway check")
    return ok(f"{a.paths.config_file} has no problems")


def daemon(a: Around) -> Finding:
    """Does a daemon run, answer and turn?"""
    pid = a.daemon
    if pid is None and a.board is None:
        return warning(
            "no daemon runs here", "nothing is decided: no job starts, no model is woken", "headway up"
        )
    if a.board is None:
        return problem(
            f"{a.machine.words(pid or 0)} is the daemon, and does not answer",
            "nobody can ask or change anything; the gate goes on with the models that are awake",
            f"tail {a.paths.logs_dir / 'daemon.log'}",
            pid=pid,
        )
    if a.health is None or a.health["status"] != "ok":
        return problem(
            "the daemon answers, and its loop does not turn",
            "nothing is decided: no job starts, no model is woken",
            "headway down && headway up   (jobs and models go on)",
        )
    if troubles := a.board["troubles"]:
        more = f", and {len(troubles) - 1} more" if len(troubles) > 1 else ""
        return warning(f"{troubles[0]['sentence']}{more}", "it needs a person", "headway status")
    return ok(f"it answers, mode {a.board['mode']}")


def gate(a: Around) -> Finding:
    """Does a gate live, and speak with the daemon?"""
    blocks = "clients cannot connect"
    if a.gate is None:
        if a.daemon is None:
            return ok("no gate, and no daemon")
        return problem("no gate runs", blocks, "headway up, or systemctl --user start headway-gate")
    if a.gate_version is None:
        return problem("a gate runs, and does not answer at its port", blocks, "headway down && headway up")
    if a.health is not None and a.health["link"] != "ok":
        return problem(
            f"a gate runs, and does not speak with the daemon ({a.health['link']})",
            "nothing is put aside for a job, since nobody can say that no request is on its way",
            "headway down && headway up   (jobs and models go on)",
        )
    return ok("it answers" if a.health is None else "it answers, and speaks with the daemon")


def versions(a: Around) -> Finding:
    """Are command line, daemon and gate of one version?"""
    theirs = {"daemon": (a.health or {}).get("version"), "gate": a.gate_version}
    other = {name: one for name, one in theirs.items() if one is not None and one != a.version}
    if not other:
        return ok(f"version {a.version}", command_line=a.version, **theirs)
    said = ", ".join(f"the {name} is {one}" for name, one in other.items())
    again = {
        "daemon": "systemctl --user restart headway-daemon",
        "gate": "systemctl --user reload headway-gate",
    }
    return warning(
        f"this is {a.version}, {said}",
        "what is new here may not be understood there",
        f"headway down && headway up, or {again[next(iter(other))]}   (jobs and models go on)",
        command_line=a.version,
        **theirs,
    )


def ports(a: Around) -> Finding:
    """Are the ports free, or ours?"""
    said_so = a.config if a.config is not None or a.paths.config_file.exists() else Config()
    if said_so is None:
        return unknown("the config does not say which ports", "headway check")
    wanted = {"api": said_so.api.port, "gate": said_so.gate.port}
    wanted |= {f"service.{name}": one.port for name, one in said_so.service.items() if one.port}
    ours = a.headways()
    taken = []
    for name, port in wanted.items():
        pids = a.machine.listeners(port) if port else None
        if pids is not None and not ours.intersection(pids):
            who = a.machine.words(pids[0]) if pids else "a program of another user"
            taken.append((name, port, who))
    if not taken:
        said = ", ".join(f"{port} ({name})" for name, port in wanted.items() if port) or "any free ones"
        return ok(f"{said}: free, or this Headway's")
    said = "; ".join(f"{port} is taken by {who}" for _, port, who in taken)
    return problem(
        said,
        "Headway does not start",
        f"set another port under [{taken[0][0]}] in {a.paths.config_file}, or end what listens there",
        ports=[port for _, port, _ in taken],
    )


def other_servers(a: Around) -> Finding:
    """Do model servers run that Headway does not manage?"""
    ours, known = a.headways(), set(_upstream_ports(a))
    found = []
    for server in a.machine.servers():
        port = urlsplit(server.url).port or 0
        pids = a.machine.listeners(port) or ()
        if port not in known and not ours.intersection(pids) and not any(map(a.machine.ours, pids)):
            found.append((server, a.machine.words(pids[0]) if pids else "a program of another user"))
    if not found:
        return ok("none that Headway does not manage")
    said = "; ".join(f"{server.kind} at {server.url} ({who})" for server, who in found)
    return warning(
        f"not managed: {said}",
        "it takes GPU memory whenever it likes, and Headway cannot put it aside",
        "headway init -n   (prints a [service.NAME] for it)",
        urls=[server.url for server, _ in found],
    )


def _upstream_ports(a: Around) -> Iterator[int]:
    for one in a.config.service.values() if a.config else ():
        if (
            one.upstream is not None
            and "{port}" not in one.upstream
            and (port := urlsplit(one.upstream).port)
        ):
            yield port


def proxy(a: Around) -> Finding:
    """Would clients ask a proxy for 127.0.0.1?"""
    used = [name for name in PROXIES if a.environ.get(name)]
    spared = {one.strip() for name in ("no_proxy", "NO_PROXY") for one in a.environ.get(name, "").split(",")}
    if not used:
        return ok("no proxy is set")
    if spared.intersection(HERE):
        return ok(f"{used[0]} is set, and not for 127.0.0.1")
    return warning(
        f"{used[0]} is set, and no_proxy does not name 127.0.0.1",
        "curl and most clients ask the proxy for this machine's own address, and do not find the gate",
        "export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost",
        variable=used[0],
    )


def logout(a: Around) -> Finding:
    """Do Headway and its sockets outlive a logout?"""
    lingers = a.machine.lingers()
    if lingers is None:
        return ok("systemd does not run here: a logout ends nothing")
    if lingers:
        return ok("what this user runs goes on after a logout")
    in_user_dir = str(a.paths.run_dir).startswith("/run/user/")
    pid = a.daemon
    if not in_user_dir and (pid is None or a.machine.unit(pid) is None):
        return ok(f"sockets are in {a.paths.run_dir}, which outlives a logout")
    return warning(
        "systemd ends this user's services at the last logout, and takes /run/user away",
        "Headway ends then, or nobody finds its sockets",
        "loginctl enable-linger",
    )


def restarts(a: Around) -> Finding:
    """Would systemd end jobs and models when it restarts the daemon?"""
    pid = a.daemon
    unit = a.machine.unit(pid) if pid else None
    if unit is None:
        return ok("the daemon is no service of systemd")
    mode = a.machine.kill_mode(unit)
    if mode is None:
        return unknown(
            f"systemd does not say how {unit} is ended", f"systemctl show -p KillMode {unit}", unit=unit
        )
    if mode != "process":
        return problem(
            f"{unit} has KillMode={mode}",
            "each restart of the daemon ends all jobs and model servers",
            f"systemctl --user edit {unit}   (add [Service] and KillMode=process)",
            unit=unit,
            kill_mode=mode,
        )
    return ok(f"{unit} has KillMode=process: jobs and models outlive it", unit=unit)
