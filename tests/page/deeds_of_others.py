"""What the verbs do to model servers, leases, claims, windows, the queue and the mode. See deeds.py."""

from tests.e2e.visits import program
from tests.page.deeds import Scene, deed
from tests.processes import end


@deed("service sleep", "--reason")
@deed("service wake", "--reason")
@deed("service start", "--reason")
@deed("service stop", "--reason")
@deed("hold")
@deed("release")
@deed("stop")
@deed("kill")
def bring_a_model_and_put_it_aside(scene: Scene) -> None:
    scene.now()
    model = scene.hands.page.get_by_role("article", name="Model server chat")

    def say(verb: str, why: str = "", sure: bool = False) -> None:
        scene.hands.press(model.get_by_label("More for chat"))
        menu = model.locator(".menu")
        if why:
            scene.hands.write(menu.get_by_label("Why"), why)
        scene.hands.press(menu.locator("button", has_text=verb).first)
        if sure:
            scene.agree(verb)

    say("Sleep", "the card is lent out")
    scene.world.wait_service("chat", "stopped")  # this one cannot sleep
    say("Wake", "for a talk")
    scene.world.wait_service("chat", "awake")
    say("Stop", "it leaks", sure=True)
    scene.world.wait(lambda: scene.world.service("chat")["wish"] != "run", "the wish")
    scene.world.wait_service("chat", "stopped")
    assert "it leaks" in str(scene.world.service("chat")["note"])
    say("Wake", "mended")
    scene.world.wait_service("chat", "awake")
    say("Hold", "a demo")
    scene.world.wait_service("chat", "stopped")
    say("Release")
    scene.world.wait(lambda: scene.world.service("chat")["wish"] == "run", "the wish")
    say("Wake")
    scene.world.wait_service("chat", "awake")
    say("Kill", "stuck", sure=True)
    scene.world.wait_service("chat", "stopped")
    say("Wake")
    scene.world.wait_service("chat", "awake")


@deed("claim", "--pid", "--match", "--gpu", "--device", "--block", "--name")
@deed("lease release")
@deed("cancel")
def count_a_program(scene: Scene) -> None:
    by_pid, by_words = (scene.world.by_hand(program(scene.world, size)) for size in ("0", "7MiB"))
    page = scene.hands.page
    scene.now()
    leases = page.get_by_role("region", name="Leases and claims")

    def count(**fields: str) -> None:
        scene.hands.press(page.get_by_role("button", name="Claim a program"))
        for name, text in fields.items():
            scene.hands.write(scene.dialog.get_by_label(name, exact=True), text)
        scene.hands.tick(scene.dialog.get_by_label("block", exact=True))
        scene.hands.press(scene.dialog.get_by_role("button", name="Claim it"))
        scene.dialog.wait_for(state="detached")
        leases.locator("li", has_text=fields["name"]).wait_for()

    count(pid=str(by_pid.pid), name="mine", gpu="2GiB", devices="sim0")
    count(match="visitor.*7MiB", name="pattern", devices="sim0")
    found = {row["name"]: row for row in scene.world.api("/api/v1/claims")}
    assert (found["mine"]["pid"], found["mine"]["need_bytes"]) == (by_pid.pid, 2 << 30)
    assert found["pattern"]["match"] == "visitor.*7MiB" and found["pattern"]["block"]
    for name in ("mine", "pattern"):
        scene.hands.press(leases.locator("li", has_text=name).get_by_role("button", name="Release"))
        scene.agree("Release")
    scene.world.wait(lambda: scene.world.api("/api/v1/claims") == [], "no claim")
    for one in (by_pid, by_words):
        end(one.pid)


@deed("lease renew", "--ttl")
@deed("lease release")
@deed("stop")
def lengthen_a_lease_and_end_it(scene: Scene) -> None:
    asked = {"name": "notebook", "gpu": "1GiB", "ttl_s": 600, "preemptible": True, "priority": 90}
    lease = scene.world.post("/api/v1/leases", asked)["id"]
    scene.world.wait(lambda: scene.world.api(f"/api/v1/leases/{lease}")["state"] == "granted", "the grant")
    scene.now()
    row = scene.hands.page.get_by_role("region", name="Leases and claims").locator("li", has_text="notebook")
    scene.hands.press(row.get_by_role("button", name="Renew"))
    scene.hands.write(scene.dialog.get_by_label("Minutes"), "60")
    scene.hands.press(scene.dialog.get_by_role("button", name="Renew"))
    scene.dialog.wait_for(state="detached")
    assert scene.world.api(f"/api/v1/leases/{lease}")["expires_in_s"] > 3000
    scene.hands.press(row.get_by_label("More for notebook"))
    scene.hands.press(row.locator(".menu button", has_text="Ask to leave"))
    scene.agree("Ask to leave")
    scene.world.wait(lambda: scene.world.api(f"/api/v1/leases/{lease}")["wish"] == "stop", "the wish")
    scene.hands.press(row.get_by_role("button", name="Release"))
    scene.agree("Release")
    scene.world.wait(lambda: scene.world.api(f"/api/v1/leases/{lease}")["ended"], "its end")


@deed("window start", "--for")
@deed("window stop")
def open_a_window_and_end_it(scene: Scene) -> None:
    scene.now()
    page = scene.hands.page
    for kind, words in (("slow wake", "slow wake over chat"), ("no model", "no model over chat")):
        scene.hands.press(page.get_by_role("button", name="Open a window"))
        scene.hands.tick(scene.dialog.get_by_role("radio", name=kind))
        scene.hands.write(scene.dialog.get_by_label("hours"), "1.5")
        scene.hands.tick(scene.dialog.get_by_label("chat", exact=True))
        scene.hands.press(scene.dialog.get_by_role("button", name="Open it"))
        windows = page.get_by_role("list", name="Windows")
        windows.get_by_text(words).wait_for()
        (row,) = [one for one in scene.world.api("/api/v1/windows") if one["state"] == "open"]
        assert (row["kind"], row["services"]) == (kind.replace(" ", "_"), ["chat"])
        assert 5000 < row["ends_in_s"] <= 5400
        scene.hands.press(windows.get_by_role("button", name="End it"))
        windows.wait_for(state="detached")


@deed("mode")
@deed("prod-only")
@deed("queue")
def change_what_headway_does(scene: Scene) -> None:
    scene.now()
    page = scene.hands.page

    def press(name: str) -> None:
        scene.hands.press(page.get_by_role("button", name=name, exact=True))

    def status(key: str) -> object:
        return scene.world.api("/api/v1/status")[key]

    press("Only watch")
    scene.agree("Only watch")
    scene.world.wait(lambda: status("mode") == "shadow", "shadow")
    press("Go live")
    scene.agree("Go live")
    scene.world.wait(lambda: status("mode") == "live", "live")
    press("Prod only")
    scene.agree("Only models")
    scene.world.wait(lambda: status("prod_only_by") == "page", "prod only")
    press("End prod only")
    scene.world.wait(lambda: status("prod_only_by") is None, "no prod only")
    press("Hold the queue")
    scene.world.wait(lambda: status("queue_held_by") == "page", "held")
    press("Release the queue")
    scene.world.wait(lambda: status("queue_held_by") is None, "released")
