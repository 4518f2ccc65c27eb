"""Checks of memory that two processes share."""

from check import Check, fact, verdict
from lab import LIBRARY, Command


def shows_others(entry):
    return entry["result"] in ("new owner's bytes", "other bytes")


def shared_right(errors_allowed, judged):
    """Never wrong bytes; errors where the peer cannot know of us; no freed handle shows more than with the driver."""

    def judge(runs):
        result = runs["pair"].result
        blocks, stale = result["blocks"], result["stale"]
        wrong = [block["bytes"] for block in blocks if block["result"] == "wrong"]
        errors = [(block["bytes"], block["code"]) for block in blocks if block["result"] == "error"]
        # The bare driver gives a freed block's memory to the next owner too, and the old handle shows it.
        usual = {entry["case"] for entry in runs["driver"].result["stale"] if shows_others(entry)} if judged else set()
        leaked = [e["case"] for e in stale if judged and shows_others(e) and e["case"] not in usual]
        good = not wrong and (errors_allowed or not errors) and not leaked
        shown = f"{sum(block['result'] == 'right' for block in blocks)} of {len(blocks)} blocks right"
        shown += f", errors {errors}" if errors else ""
        shown += f", WRONG BYTES {wrong}" if wrong else ""
        shown += "; freed handles: " + ", ".join(f"{e['case']} {e['result']} {e['code'] or ''}".strip() for e in stale)
        shown += f"; NOT SO WITH THE DRIVER: {', '.join(leaked)}" if leaked else ""
        data = {"blocks": blocks, "stale": stale}
        return verdict(good, shown, **data) if judged else fact(shown, **data)

    return judge


def handed_over(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    good = plain["result"] == preload["result"] and preload["wrong"] == 0 and preload["peer_exit"] == 0
    return verdict(good, f"{len(preload['result'])} tensors, {preload['wrong']} wrong")


def handed_over_by_the_adapter(runs):
    plain, adapter = runs["plain"].result, runs["preload"].result
    right = plain["result"] == adapter["result"] and adapter["wrong"] == 0 and adapter["peer_exit"] == 0
    # A descriptor for each handle, or each tensor, would show.
    kept = [ours - theirs for ours, theirs in zip(adapter["files"], plain["files"], strict=True)]
    good = right and adapter["backend"] == "cenote" and max(kept) <= 8
    shown = f"{len(adapter['result'])} tensors, {adapter['wrong']} wrong, allocator {adapter['backend']}"
    return verdict(good, f"{shown}; files open beyond PyTorch's: {kept}", **adapter)


ANSWERS = {-1: "opens right", -2: "opens other bytes", -3: "opens", -4: "kills the peer"}


def altered(runs):
    def word(code):
        return ANSWERS.get(code) or (f"opens, copy fails {code - 1000}" if code >= 1000 else f"error {code}")

    answer = runs["plain"].result
    parts = ", ".join(f"{part} {word(code)}" for part, code in answer["parts"].items())
    by_answer = {}
    for place, code in enumerate(answer["each_byte"]):
        by_answer.setdefault(word(code), []).append(place)
    each = "; ".join(f"{said} at {places}" for said, places in sorted(by_answer.items()))
    return fact(f"parts altered: {parts}. One byte altered: {each}", **answer)


def pair(lab, name, question, preload, peer, errors_allowed=False, judged=True, env=None):
    driver = Command("driver", lab.program("ipc_pair", "none"), timeout=60)
    command = Command("pair", lab.program("ipc_pair", peer), preload, env or {}, timeout=60)
    commands = [driver, command] if judged else [command]
    return Check(f"ipc:{name}", question, commands, shared_right(errors_allowed, judged), seconds=12)


def facts(lab):
    flip = Command("plain", lab.program("ipc_flip"), timeout=90)
    return [
        pair(lab, "driver", "What the bare driver does", False, "none", judged=False),
        Check("ipc:altered", "What does the driver answer to an altered handle?", [flip], altered, seconds=15),
    ]


def checks(lab):
    torch = [Command(label, lab.job("ipc_torch.py"), label == "preload", timeout=120) for label in ("plain", "preload")]
    env = {"CENOTE_CONF": "torch:adapter", "CENOTE_CACHE_DIR": str(lab.work / "cache")}
    adapter = [torch[0], Command("preload", lab.job("ipc_torch.py"), True, env, timeout=120)]
    return [
        Check("ipc:torch", "Do tensors arrive whole in a second process?", torch, handed_over, seconds=60),
        Check("ipc:torch:adapter", "And from the adapter, both ways?", adapter, handed_over_by_the_adapter, seconds=70),
        pair(lab, "both", "Are the bytes right when both processes run the library?", True, "same"),
        pair(
            lab,
            "producer",
            "Never wrong bytes when only the exporting process runs it?",
            True,
            "none",
            errors_allowed=True,
        ),
        pair(
            lab,
            "producer:no_slabs",
            "Everything right then with slabs:false?",
            True,
            "none",
            env={"CENOTE_CONF": "slabs:false"},
        ),
        pair(lab, "consumer", "Are the bytes right when only the opening process runs it?", False, str(LIBRARY)),
    ]
