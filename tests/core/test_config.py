"""The config: every error at once, with file, line, table and key; nothing clamped, nothing guessed."""

from pathlib import Path

import pytest

from headway.config.load import load
from headway.config.problems import lines_of
from headway.core.model import GIB
from headway.errors import ConfigInvalid
from tests.configs import CHAT, NIGHT, RENDER, SIM, TRAIN, loaded, refused, written

pytestmark = pytest.mark.core

ERRORS = {
    # name: (text, how its one problem begins, what else it says)
    "unknown key, near name": (CHAT + "queue_maxx = 3\n", "config.toml:4 [service.chat] queue_maxx: unknown key", '"queue_max"'),
    "unknown key, in a table inside": (CHAT + "memory = {awak = 3}\n", "config.toml:4 [service.chat] memory.awak: unknown key", '"awake"'),
    "unknown key of another table": ("max_active_jobs = 3\n", "config.toml:1 max_active_jobs: unknown key", "belongs in [headway]"),
    "unknown table": ('[services.chat]\ndriver = "process"\n', "config.toml:1 services: unknown table", '"service"'),
    "missing key": ('\n\n[job.train]\ndriver = "restart"\n', "config.toml:3 [job.train] start: is missing", ""),
    "half a way to park": ('[job.train]\nstart = ["x"]\npark = ["y"]\n', "config.toml:1 [job.train] resume: is missing", "park"),
    "unknown driver": (TRAIN.replace("restart", "restrat"), "config.toml:2 [job.train] driver: must be one of", '"restart"'),
    "window without an end": (NIGHT, "config.toml:1 [window.night]: says no end", "duration"),
    "window with two ends": (NIGHT + 'end = "06:00"\nduration = "2h"\n', "config.toml:1 [window.night]: give duration or end", ""),
    "window with a clock for cron": (NIGHT.replace("0 22 * * *", "22:00") + 'end = "06:00"\n', "config.toml:3 [window.night] cron: must be five cron words", ""),
    "window that ends at 24:30": (NIGHT + 'end = "24:30"\n', "config.toml:4 [window.night] end: must be a time of day", "06:30"),
    "window of no length": (NIGHT + "duration = 0\n", "config.toml:4 [window.night] duration: must be more than 0", ""),
    "window of an unknown kind": (NIGHT.replace("no_model", "no_models") + 'end = "06:00"\n', "config.toml:2 [window.night] kind: must be one of", '"no_model"'),
    "window over an unknown service": (CHAT + NIGHT + 'end = "06:00"\nservices = ["chta"]\n', "config.toml:8 [window.night] services: no service", '"chat"'),
    "window with the name of one by hand": (NIGHT.replace("night", "w7") + 'end = "06:00"\n', "config.toml:1 [window.w7]: is a name for windows", ""),
    "unknown mode": ('mode = "alive"\n', "config.toml:1 mode: must be one of", '"live"'),
    "bad name": (CHAT.replace("chat", '"My Chat"'), 'config.toml:1 [service."My Chat"]: is no name', ""),
    "name with a capital": (CHAT.replace("chat", "Chat"), "config.toml:1 [service.Chat]: is no name", ""),
    "service called like a job's id": (CHAT.replace("chat", "j12"), "config.toml:1 [service.j12]: j12 is what the id", "another name"),
    "job called like an id": (TRAIN.replace("train", "j1"), "config.toml:1 [job.j1]: j1 is what the id", ""),
    "argv is a text": (TRAIN.replace('["train"]', '"train me"'), "config.toml:3 [job.train] start: must be a list", "no shell"),
    "argv is empty": (TRAIN.replace('["train"]', "[]"), "config.toml:3 [job.train] start: is empty", ""),
    "argv with a blank program": (TRAIN.replace('["train"]', '[" "]'), "config.toml:3 [job.train] start: is empty", ""),
    "argv with a number": (TRAIN.replace('["train"]', '["train", 3]'), "config.toml:3 [job.train] start: must be a list of texts", ""),
    "argv that needs a shell": (TRAIN.replace('["train"]', '["~/train"]'), "config.toml:3 [job.train] start: starts with", "no shell"),
    "port too large": ("[gate]\nport = 65536\n", "config.toml:2 [gate] port: must be at most 65535, not 65536", ""),
    "port as text": ('[gate]\nport = "8491"\n', "config.toml:2 [gate] port: must be a whole number", ""),
    "port as truth": ("[gate]\nport = true\n", "config.toml:2 [gate] port: must be a whole number", ""),
    "api reachable from outside": ('[api]\nhost = "0.0.0.0"\n', "config.toml:2 [api] host: 0.0.0.0 can be reached", "127.0.0.1"),
    "a webhook that is no address": ('[alerts]\nwebhook = "example.org/hook"\n', "config.toml:2 [alerts] webhook: is no address", "https://"),
    "a key for no webhook": ('[alerts]\nwebhook_key_file = "key"\n', "config.toml:2 [alerts] webhook_key_file: has no meaning", ""),
    "an unknown way to read": ('[api]\nread = "closed"\n', "config.toml:2 [api] read: must be one of open, token", ""),
    "gate reachable from outside": ('[gate]\nhost = "::"\n', "config.toml:2 [gate] host: :: can be reached", ""),
    "host is a name": ('[api]\nhost = "example.org"\n', "config.toml:2 [api] host: ", "no address"),
    "duration without unit": ('[headway]\ngap_min = "90"\n', "config.toml:2 [headway] gap_min: ", "10min"),
    "duration below zero": ("[headway]\ngap_min = -1\n", "config.toml:2 [headway] gap_min: must be between", ""),
    "duration that is no number": ("[headway]\ngap_min = nan\n", "config.toml:2 [headway] gap_min: must be between", ""),
    "duration of 400 days": ('[headway]\ngap_min = "400d"\n', "config.toml:2 [headway] gap_min: must be between", ""),
    "size with a short unit": (CHAT + 'memory.awake = "16G"\n', "config.toml:4 [service.chat] memory.awake: ", '"16GiB"'),
    "size below zero": (CHAT + "memory.awake = -1\n", "config.toml:4 [service.chat] memory.awake: must be between", ""),
    "size with a fraction of bytes": (CHAT + "memory.awake = 1.5\n", "config.toml:4 [service.chat] memory.awake: must be a size", ""),
    "memory without a form": (CHAT + 'memory = "16GiB"\n', "config.toml:4 [service.chat] memory: must be a table of awake, asleep", ""),
    "priority too high": (TRAIN + "priority = 101\n", "config.toml:4 [job.train] priority: must be at most 100", ""),
    "priority in other words": (TRAIN + 'priority = "urgent"\n', '''config.toml:4 [job.train] priority: "urgent"''', "background"),
    "unknown placement": (TRAIN + 'placement = "beside"\n', "config.toml:4 [job.train] placement: must be one of gap", ""),
    "health is no path": (CHAT + 'health = "ready"\n', "config.toml:4 [service.chat] health: must be a path", ""),
    "upstream with a path": (CHAT + 'upstream = "http://127.0.0.1:{port}/v1"\n', "config.toml:4 [service.chat] upstream: must end", ""),
    "upstream by https": (CHAT + 'upstream = "https://127.0.0.1:{port}"\n', "config.toml:4 [service.chat] upstream: must be a plain URL", ""),
    "neither start nor upstream": ('[service.chat]\ndriver = "process"\n', "config.toml:1 [service.chat] upstream: is missing", "start"),
    "upstream without the port of start": (CHAT + 'upstream = "http://127.0.0.1:80"\n', "config.toml:4 [service.chat] upstream: start has {port}", ""),
    "upstream with a port that start lacks": (CHAT.replace(', "{port}"', "") + 'upstream = "http://127.0.0.1:{port}"\n', "config.toml:4 [service.chat] upstream: upstream has {port}", ""),
    "no upstream and no port": (CHAT.replace(', "{port}"', ""), "config.toml:1 [service.chat] upstream: is missing", ""),
    "two services, one model": (CHAT + CHAT.replace("chat", "other") + 'models = ["x", "chat"]\n', "config.toml:7 [service.other] models: [service.chat]", '"chat"'),
    "a list where models was meant": (CHAT + 'model = ["qwen"]\n', "config.toml:4 [service.chat] model: must be a text", '(did you mean "models"?)'),
    "no models": (CHAT + "models = []\n", "config.toml:4 [service.chat] models: is empty", ""),
    "a model twice": (CHAT + 'models = ["a", "a"]\n', "config.toml:4 [service.chat] models: holds", "twice"),
    "one name for a service and a job": (CHAT + TRAIN.replace("train", "chat"), "config.toml:4 [job.chat]: a service has", ""),
    "one port twice": ("[gate]\nport = 8490\n[api]\nport = 8490\n", "config.toml:4 [api] port: 8490", "[gate]"),
    "pinned with idle_ttl": (CHAT + 'pinned = true\nidle_ttl = "1h"\n', "config.toml:5 [service.chat] idle_ttl: contradicts", ""),
    "asleep of a process": (CHAT + "memory = {asleep = 1}\n", "config.toml:4 [service.chat] memory.asleep: driver process", ""),
    "main memory of a process asleep": (CHAT + "host_memory = {asleep = 1}\n", "config.toml:4 [service.chat] host_memory.asleep: driver process", ""),
    "asleep is more than awake": (CHAT.replace("process", "llamacpp") + "memory = {awake = 1, asleep = 2}\n", "config.toml:4 [service.chat] memory.asleep: is more", ""),
    "vllm that says not what it keeps": (CHAT.replace("process", "vllm"), "config.toml:1 [service.chat] memory.asleep: is missing", "keeps"),
    "vllm that sleeps too deep": (CHAT.replace("process", "vllm") + "memory = {asleep = 1}\nsleep_level = 3\n", "config.toml:5 [service.chat] sleep_level: must be at most 2", ""),
    "sleep level of a process": (CHAT + "sleep_level = 1\n", "config.toml:4 [service.chat] sleep_level: has no meaning", "process"),
    "sleep limit of llamacpp": (CHAT.replace("process", "llamacpp") + "sleep_limit = 1\n", "config.toml:4 [service.chat] sleep_limit: has no meaning", ""),
    "command without park": (RENDER.replace('park = ["park"]\n', ""), "config.toml:1 [job.render] park: is missing", ""),
    "command without resume": (RENDER.replace('resume = ["resume"]\n', ""), "config.toml:1 [job.render] resume: is missing", ""),
    "restart with park": (TRAIN + 'park = ["park"]\n', "config.toml:4 [job.train] park: driver restart", "driver command"),
    "checkpoint with park": (TRAIN.replace('"restart"', '"checkpoint"') + 'park = ["park"]\n', "config.toml:4 [job.train] park: driver checkpoint", "driver command"),
    "cuda-checkpoint of a restart": (TRAIN + 'cuda_checkpoint = ["c"]\n', "config.toml:4 [job.train] cuda_checkpoint: driver restart", ""),
    "parked of a restart": (TRAIN + "memory = {parked = 1}\n", "config.toml:4 [job.train] memory.parked: driver restart", ""),
    "parked main memory of a restart": (TRAIN + "host_memory = {parked = 1}\n", "config.toml:4 [job.train] host_memory.parked: driver restart", ""),
    "a disk that a restart parks to": (TRAIN + "disk = {parked = 1}\n", "config.toml:4 [job.train] disk.parked: driver restart", ""),
    "a disk that it runs on": (RENDER + "disk = {running = 1}\n", "config.toml:6 [job.render] disk.running: unknown key", ""),
    "after an unknown job": (TRAIN + RENDER + 'after = ["trian"]\n', "config.toml:9 [job.render] after: no job", '"train"'),
    "after a service": (CHAT + TRAIN + 'after_ok = ["chat"]\n', "config.toml:7 [job.train] after_ok: ", "is a service"),
    "after itself": (TRAIN + 'after = ["train"]\n', "config.toml:4 [job.train] after: a job cannot", ""),
    "after in a ring": (TRAIN + 'after = ["render"]\n' + RENDER + 'after_ok = ["train"]\n', "config.toml:4 [job.train] after: these wait", "train -> render -> train"),
    "no GPU but memory": (TRAIN + "gpus = 0\nmemory = {running = 5}\n", "config.toml:5 [job.train] memory.running: it needs no device", ""),
    "no GPU but devices": (SIM + TRAIN + 'gpus = 0\ndevices = ["sim0"]\n', "config.toml:9 [job.train] devices: it needs no", ""),
    "other count than devices": (SIM + TRAIN + 'gpus = 2\ndevices = ["sim0"]\n', "config.toml:8 [job.train] gpus: is 2, but devices names only 1", ""),
    "unknown device": (SIM + CHAT + 'devices = ["sim1"]\n', "config.toml:8 [service.chat] devices: no device", '"sim0"'),
    "can never fit": (SIM + CHAT + 'memory.awake = "25GiB"\n', "config.toml:8 [service.chat] memory.awake: 25GiB can never fit", "24GiB"),
    "one byte too much": (SIM + TRAIN + f"memory.running = {24 * GIB + 1}\n", "config.toml:8 [job.train] memory.running: ", "can never fit"),
    "more devices than there are": (SIM + TRAIN + "gpus = 2\n", "config.toml:8 [job.train] gpus: needs 2 devices, there are 1", ""),
    "two pinned, one device": (SIM + CHAT + 'pinned = true\nmemory.awake = "12GiB"\n' + CHAT.replace("chat", "b") + 'pinned = true\nmemory.awake = "11GiB"\n', "config.toml:13 [service.b] pinned: it and [service.chat]", ""),
    "simulated without reports": (SIM.replace('reports = "reports"\n', ""), "config.toml:1 [device.sim0] reports: is missing", ""),
    "simulated without total": (SIM.replace('total = "24GiB"\n', ""), "config.toml:1 [device.sim0] total: is missing", ""),
    "nvml that names no card": ('[device.big]\nmeter = "nvml"\n', "config.toml:1 [device.big]: which card", ""),
    "nvml with a total": ('[device.gpu0]\nmeter = "nvml"\ntotal = "1GiB"\n', "config.toml:3 [device.gpu0] total: is read", ""),
    "one card twice": ('[device.gpu1]\nmeter = "nvml"\n[device.b]\nmeter = "nvml"\nindex = 1\n', "config.toml:3 [device.b]: is the same card", "gpu1"),
    "backoff the wrong way round": ('[headway]\nbackoff_min = "10min"\n', "config.toml:2 [headway] backoff_min: is longer", ""),
    "variable of ours": (TRAIN + 'env = {CUDA_VISIBLE_DEVICES = "0"}\n', "config.toml:4 [job.train] env.CUDA_VISIBLE_DEVICES: is set by Headway", ""),
    "variable that is no name": (TRAIN + 'env = {"a b" = "0"}\n', "config.toml:4 [job.train] env.a b: is no name", ""),
    "not TOML": ("mode =\n", "config.toml:1: is not TOML", ""),
    "one device by two names": (SIM.replace("sim0", "gpu1").replace('"simulated"\ntotal = "24GiB"\nreports = "reports"', '"nvml"') + TRAIN + 'devices = ["gpu1", 1]\n', "config.toml:6 [job.train] devices: names one device twice", ""),
    "a key twice": ('mode = "live"\nmode = "live"\n', "config.toml:2: is not TOML", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "begins", "says"), ERRORS.values(), ids=ERRORS.keys())
def test_error(text: str, begins: str, says: str, tmp_path: Path) -> None:
    problems = refused(tmp_path, text)
    assert len(problems) == 1, problems
    assert problems[0].startswith(begins)
    assert says in problems[0]


FINE = {
    "nothing at all": "",
    "exactly the device": SIM + CHAT + 'memory.awake = "24GiB"\n',
    "two pinned that fit beside the reserve": SIM
    + CHAT
    + f'pinned = true\nmemory.awake = "12GiB"\n{CHAT.replace("chat", "b")}pinned = true\n'
    + f"memory.awake = {12 * GIB - int(24 * GIB * 0.05)}\n",
    "two pinned on two devices": SIM
    + SIM.replace("sim0", "sim1")
    + CHAT
    + f"pinned = true\n{CHAT.replace('chat', 'b')}pinned = true\n",
    "devices of nobody knows which machine": CHAT + "devices = [0]\n",
    "a card by its index": '[device.gpu1]\nmeter = "nvml"\n' + CHAT + "devices = [1]\n",
    "one of two devices that are named": SIM
    + SIM.replace("sim0", "b").replace("24", "2")
    + CHAT
    + 'devices = ["sim0", "b"]\ngpus = 1\nmemory.awake = "20GiB"\n',
    "a vllm without a device says nothing of its memory": CHAT.replace("process", "vllm") + "gpus = 0\n",
    "jobs that wait without a ring": TRAIN + RENDER + 'after = ["train"]\nafter_ok = ["train"]\n',
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_fine(text: str, tmp_path: Path) -> None:
    loaded(tmp_path, text)


def test_every_problem_is_told_at_once_in_the_order_of_the_files(tmp_path: Path) -> None:
    text = (
        'mode = "x"\n'
        + SIM
        + CHAT
        + 'models = ["a"]\npinnd = true\nhealth = "x"\n'
        + TRAIN
        + "priority = 101\n"
    )
    # [service.chat] has a wrong value, so its need is not looked at; all the rest still is
    problems = refused(tmp_path, text, more=RENDER + 'devices = ["sim9"]\nafter = ["nobody", "train"]\n')
    begins = [
        "config.toml:1 mode: must be one of",
        "config.toml:10 [service.chat] pinnd: unknown key",
        "config.toml:11 [service.chat] health: must be a path",
        "config.toml:15 [job.train] priority: must be at most",
        "conf.d/more.toml:6 [job.render] devices: no device",
        "conf.d/more.toml:7 [job.render] after: no job",
    ]
    assert [problem[: len(start)] for problem, start in zip(problems, begins, strict=True)] == begins


def test_an_unknown_key_does_not_hide_what_else_is_wrong_in_its_table(tmp_path: Path) -> None:
    problems = refused(tmp_path, SIM + CHAT + 'pinnd = true\nmemory = {awake = "25GiB", aslep = 0}\n')
    assert [problem.split(" ")[2] for problem in problems] == ["pinnd:", "memory.aslep:", "memory.awake:"]


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, TRAIN + "env = {TOKEN = 31337}\n")
    assert problem == "config.toml:4 [job.train] env.TOKEN: must be a text"


UNREADABLE = {
    "not UTF-8": (b"\xff", "config.toml: is not UTF-8"),
    "a NUL": (b'mode = "live"\n\0', "config.toml:2: is not TOML"),
    "a list with no end": (b'mode = "live"\n[job.a]\nstart = [\n', "config.toml:4: is not TOML"),
}


@pytest.mark.parametrize(("data", "begins"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_that_is_no_text(data: bytes, begins: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigInvalid) as caught:
        load(file, {})
    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path}/{begins}")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load(tmp_path, {})
    assert len(caught.value.problems) == 1


MISTAKES = (  # each in a [job.xN] of its own
    "strat = 1", 'priority = "urgent"', "priority = 101", "retries = -1", "retries = 1.5", "retries = true", 'hold = "yes"',
    "goal = 3", 'placement = "beside"', "park = ['x']", "memory = {parked = 1}", 'memory = "2GiB"', 'memory.running = "2G"',
    "memory.running = 1.5", "memory = {runing = 1}", 'stop_grace = "90"', "stop_grace = -1", "gpus = 65",
    "devices = {}", 'cwd = "~nobody-here/x"', "cwd = ''", "env = {A = 1}", 'env = {"a b" = "1"}', 'env.HEADWAY_LEASE = "x"',
    'after = ["nobody"]', 'after = "train"', 'tags = ["a", "a"]', "saved = []", 'progress = "cat x"', 'resumable = 1',
)  # fmt: skip


def test_all_kinds_of_errors_are_told_in_one_go(tmp_path: Path) -> None:
    """None hides another, and none is made up."""
    job = 'driver = "restart"\nstart = ["x"]\n'
    text = "".join(f"[job.x{number}]\n{job}{mistake}\n" for number, mistake in enumerate(MISTAKES))
    problems = refused(tmp_path, text)
    begins = [f"config.toml:{4 * number + 4} [job.x{number}] " for number in range(len(MISTAKES))]
    assert [problem[: len(start)] for problem, start in zip(problems, begins, strict=True)] == begins


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load(tmp_path / "none.toml", {})
    assert caught.value.problems == [f"{tmp_path}/none.toml: there is no such file"]


def test_tables_of_conf_d_are_added(tmp_path: Path) -> None:
    config = loaded(tmp_path, SIM + CHAT, a=TRAIN + 'after = ["render"]\n', b=RENDER + "[gate]\nport = 0\n")
    assert (list(config.service), list(config.job), config.gate.port) == (["chat"], ["train", "render"], 0)


def test_a_table_in_two_files_is_an_error(tmp_path: Path) -> None:
    problems = refused(tmp_path, CHAT + "[gate]\nport = 0\n", a="\n" + CHAT, b="[gate]\nport = 1\n")
    assert [problem.replace(f"{tmp_path}/", "") for problem in problems] == [
        "conf.d/a.toml:2 [service.chat]: is defined twice, first at config.toml:1",
        "conf.d/b.toml:1 [gate]: is defined twice, first at config.toml:4",
    ]


def test_one_unreadable_file_does_not_make_the_names_of_others_unknown(tmp_path: Path) -> None:
    problems = refused(tmp_path, RENDER + 'after = ["train"]\n', a="[job.train\n")
    assert [problem.split(" ")[0] for problem in problems] == ["conf.d/a.toml:1:"]


OVERRIDES = {
    # name: (variable without prefix, value, how to read it, expected)
    "a number": ("GATE__PORT", "9000", lambda c: c.gate.port, 9000),
    "at the top": ("MODE", "live", lambda c: c.mode, "live"),
    "a duration": ("HEADWAY__GAP_MIN", "1min", lambda c: c.headway.gap_min, 60.0),
    "inside a table": ("SERVICE__MY_CHAT__MEMORY__AWAKE", "4GiB", lambda c: c.service["my-chat"].memory.awake, 4 * GIB),
    "a list": ("SERVICE__MY_CHAT__MODELS", '["x"]', lambda c: c.service["my-chat"].models, ("x",)),
    "a truth": ("SERVICE__MY_CHAT__PINNED", "true", lambda c: c.service["my-chat"].pinned, True),
    "a variable, as it is": ("SERVICE__MY_CHAT__ENV__Abc", "7", lambda c: c.service["my-chat"].env, {"Abc": "7", "OLD": "1"}),
    "empty clears a variable": ("SERVICE__MY_CHAT__ENV__OLD", "", lambda c: c.service["my-chat"].env, {}),
    "empty clears": ("SERVICE__MY_CHAT__MAX_ACTIVE", "", lambda c: c.service["my-chat"].max_active, None),
    "empty clears a table": ("SERVICE__MY_CHAT", "", lambda c: list(c.service), []),
    "a whole table": ("JOB__NEW", '{driver = "restart", start = ["x"]}', lambda c: c.job["new"].start, ("x",)),
    "a text with TOML's signs": ("HEADWAY__GAP_MIN", "5s\nx = 1", None, "HEADWAY_CFG__HEADWAY__GAP_MIN [headway] gap_min: "),
    "a wrong value names the variable": ("GATE__PORT", "x", None, "HEADWAY_CFG__GATE__PORT [gate] port: must be a whole number"),
    "an unknown key": ("GATE__PROT", "1", None, 'HEADWAY_CFG__GATE__PROT [gate] prot: unknown key (did you mean "port"?)'),
    "no table": ("GATE__PORT__X", "1", None, "HEADWAY_CFG__GATE__PORT__X: [gate] port is no table"),
    "an empty part": ("GATE__", "1", None, "HEADWAY_CFG__GATE__: has an empty part"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value", "read", "expected"), OVERRIDES.values(), ids=OVERRIDES.keys())
def test_override(name: str, value: str, read: object, expected: object, tmp_path: Path) -> None:
    text = CHAT.replace("chat", "my-chat") + 'max_active = 3\nenv = {OLD = "1"}\n[gate]\nport = 1\n'
    environ = {f"HEADWAY_CFG__{name}": value, "HEADWAY_CONFIG": "other"}
    if callable(read):
        assert read(loaded(tmp_path, text, environ)) == expected
    else:
        (problem,) = refused(tmp_path, text, environ)
        assert problem.startswith(str(expected))


def test_the_meter_may_say_which_devices_there_are(tmp_path: Path) -> None:
    file = written(tmp_path, CHAT + 'devices = ["gpu1"]\nmemory.awake = "20GiB"\n')
    load(file, {}, {"gpu0": 8 * GIB, "gpu1": 24 * GIB})
    load(file, {}, {"gpu1": None})
    for found in ({"gpu0": 8 * GIB}, {"gpu1": 16 * GIB}, {}):
        with pytest.raises(ConfigInvalid):
            load(file, {}, found)


def test_lines_are_found_whatever_the_layout() -> None:
    text = '# c\nx = """\n[not.a.table]\n"""\n\n[a."b.c"]  # c\ny = [\n  1,\n  2,\n]\nz.q = {r = 1}\n[a]\n'
    assert lines_of(text) == {
        ("x",): 2,
        ("a",): 12,
        ("a", "b.c"): 6,
        ("a", "b.c", "y"): 7,
        ("a", "b.c", "z"): 11,
        ("a", "b.c", "z", "q"): 11,
        ("a", "b.c", "z", "q", "r"): 11,
    }
