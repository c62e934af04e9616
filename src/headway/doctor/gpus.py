"""Checks of the GPUs: whether they can be read, and what their settings do to those who share them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headway.config.starter import DECLARED
from headway.config.warnings import asks_nvml
from headway.core.units import size
from headway.doctor.around import Around
from headway.doctor.finding import Finding, ok, problem, unknown, warning
from headway.ports import DeviceReading

STRANGER_BYTES = 256 << 20  # a desktop's programs hold less than this each
NO_GPU = "no GPU is read here"
NO_ANSWER = "NVML did not answer in time"


def driver(a: Around) -> Finding:
    """Can the GPUs be read at all?"""
    if a.cards is None:
        return unknown(NO_ANSWER, "nvidia-smi")
    lost = [f"{card.name}: {card.trouble}" for card in a.gpus if card.trouble]
    if lost:
        blocks = "nothing new starts on a GPU that cannot be read"
        return problem("; ".join(lost), blocks, "nvidia-smi -q", gpus=[card.name for card in a.gpus])
    if a.gpus:
        names = ", ".join(f"{card.name} ({card.extra.get('model') or 'GPU'})" for card in a.gpus)
        return ok(f"NVML shows {names}", gpus=[card.name for card in a.gpus])
    trouble = a.cards.trouble or "it shows no GPU"
    signs = a.machine.signs_of_nvidia()
    if signs:
        measured = f"{signs[0]} is there, and NVML cannot be used: {trouble}"
        return problem(measured, "nothing starts on a GPU", _mends(a, trouble), signs=list(signs))
    if a.config is not None and not asks_nvml(a.config):
        return ok("no NVIDIA driver, and the config needs none")
    return warning(
        f"no NVIDIA driver: {trouble}",
        "there is no GPU to share, and what needs one waits",
        _without_one(a),
    )


def _without_one(a: Around) -> str:
    """How to try Headway all the same. A config that is there stays as it is, so a person has to edit it."""
    file, there = a.paths.config_file, None
    with suppress(OSError, ValueError):
        there = file.read_text("utf-8")
    if there is None:
        return f"headway init   (to try it without one: then uncomment the table [{DECLARED}] in {file})"
    if a.config is None:
        return "headway check   (the config has to be whole first)"
    if any(line.startswith("#") and line.lstrip("# ") == f"[{DECLARED}]" for line in there.splitlines()):
        return f"uncomment the table [{DECLARED}] in {file}   (to try it without one)"
    return (
        f'add to {file}: [{DECLARED}] with meter = "declared" and total = "24GiB"   (to try it without one)'
    )


def _mends(a: Around, trouble: str) -> str:
    if "differ" in trouble or "lost" in trouble:
        return "sudo reboot"
    if a.machine.container() is not None:
        return "docker run --gpus all --pid=host ...   (the container was started without its GPUs)"
    return "sudo modprobe nvidia" if "not loaded" in trouble else "nvidia-smi"


def processes(a: Around) -> Finding:
    """Does NVML say which process holds how much, with pids of here?"""
    if a.cards is None:
        return unknown(NO_ANSWER)
    blind = [card.name for card in a.gpus if not card.trouble and _blind(card)]
    if blind:
        return warning(
            f"the driver does not say which process holds how much on {', '.join(blind)}",
            "sizes are inferred: what the config declares counts, and not what is measured",
            "headway check   (each service and job needs a `memory`)",
            gpus=blind,
        )
    elsewhere = sorted(
        {pid for card in a.gpus for pid, _ in card.processes or () if not a.machine.lives(pid)}
    )
    if elsewhere:
        return warning(
            f"memory is held by processes that are not seen here: {', '.join(map(str, elsewhere))}",
            "what jobs and models hold is not told from what others hold",
            "docker run --pid=host ..." if a.machine.container() else "nvidia-smi",
            pids=elsewhere,
        )
    if a.gpus and a.machine.container() and not a.machine.sees_all_pids():
        return warning(
            f"this is a container ({a.machine.container()}) with pids of its own",
            "NVML tells the machine's pids, so nobody's memory is attributed",
            "docker run --pid=host ...",
        )
    return ok("each process's memory is told" if a.gpus else NO_GPU)


def _blind(card: DeviceReading) -> bool:
    return card.processes is None or any(held is None for _, held in card.processes)


def strangers(a: Around) -> Finding:
    """Who holds GPU memory and is no holder of Headway's?"""
    if a.board is not None:
        held = [
            (device["name"], one["pid"], one["bytes"])
            for device in a.board["devices"]
            for one in device.get("strangers", ())
        ]
    elif a.cards is None:
        return unknown(NO_ANSWER)
    else:
        held = [
            (card.name, pid, size_bytes)
            for card in a.gpus
            for pid, size_bytes in card.processes or ()
            if not a.machine.ours(pid)
        ]
    found = sorted((row for row in held if (row[2] or 0) >= STRANGER_BYTES), key=lambda row: -row[2])
    if not found:
        return ok("nobody else holds GPU memory" if a.gpus or held else NO_GPU)
    said = [f"{size(held_bytes)} of {name} by {a.machine.words(pid)}" for name, pid, held_bytes in found]
    return warning(
        f"held by programs that Headway did not start: {'; '.join(said)}",
        "Headway leaves them alone, and their memory counts as taken",
        f"headway claim --pid {found[0][1]}   (gives it a name), or end it",
        pids=[pid for _, pid, _ in found],
    )


def mig(a: Around) -> Finding:
    """Is a GPU split into MIG devices?"""
    return _setting(
        a,
        "mig",
        (True,),
        lambda names: problem(
            f"MIG is on: {names}",
            "a split GPU as a whole gives no memory figures, and nothing starts on it",
            f"sudo nvidia-smi -i {_first(a, 'mig', (True,))} -mig 0",
        ),
        "MIG is off",
    )


def compute_mode(a: Around) -> Finding:
    """May several processes use a GPU at once?"""
    bad = ("exclusive_process", "exclusive_thread", "prohibited")
    return _setting(
        a,
        "compute_mode",
        bad,
        lambda names: problem(
            f"the compute mode lets at most one process in: {names}",
            "a job cannot start while a model sleeps there, and none beside another",
            f"sudo nvidia-smi -i {_first(a, 'compute_mode', bad)} -c DEFAULT",
        ),
        "several processes may use each GPU",
    )


def persistence(a: Around) -> Finding:
    """Does the driver stay ready while nobody uses the GPU?"""
    return _setting(
        a,
        "persistence",
        (False,),
        lambda names: warning(
            f"persistence mode is off: {names}",
            "each first use of an idle GPU costs seconds, on every wake",
            "sudo nvidia-smi -pm 1",
        ),
        "persistence mode is on",
    )


def _setting(
    a: Around, key: str, bad: tuple[object, ...], say: Callable[[str], Finding], well: str
) -> Finding:
    """What all GPUs say of one setting; `say` makes the finding of the names of those in a bad one."""
    if a.cards is None:
        return unknown(NO_ANSWER)
    if not a.gpus:
        return ok(NO_GPU)
    if names := [card.name for card in a.gpus if card.extra.get(key) in bad]:
        return say(", ".join(names))
    if any(card.extra.get(key) is None for card in a.gpus):
        return unknown("the driver does not say")
    return ok(well)


def mps(a: Around) -> Finding:
    """Does NVIDIA's multi-process service run?"""
    pids = a.machine.running("nvidia-cuda-mps")
    if not pids:
        return ok("no MPS")
    return warning(
        f"NVIDIA's MPS runs: {', '.join(map(a.machine.words, pids))}",
        "programs share one process's context: the end of one can end others, and memory may be told of the wrong one",
        "echo quit | nvidia-cuda-mps-control",
        pids=list(pids),
    )


def visible(a: Around) -> Finding:
    """Is the daemon told to see some GPUs only?"""
    pid = a.daemon
    environ = a.machine.environment(pid) if pid else a.environ
    if environ is None:
        return unknown("the daemon's environment cannot be read")
    whose = "the daemon has" if pid else "this shell has"
    hidden = environ.get("NVIDIA_VISIBLE_DEVICES")
    if hidden in ("void", "none") and a.machine.container():
        return problem(
            f"{whose} NVIDIA_VISIBLE_DEVICES={hidden}",
            "the container gets no GPU",
            "docker run --gpus all ...",
        )
    if (value := environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return ok("CUDA_VISIBLE_DEVICES is not set")
    return warning(
        f"{whose} CUDA_VISIBLE_DEVICES={value}",
        "Headway reads all GPUs all the same, and gives each program the one that it chose",
        "unset CUDA_VISIBLE_DEVICES   (for some GPUs only: [device.gpuN] tables in the config)",
        value=value,
    )


def _first(a: Around, key: str, bad: tuple[object, ...]) -> int:
    return next(card.index for card in a.gpus if card.extra.get(key) in bad)
