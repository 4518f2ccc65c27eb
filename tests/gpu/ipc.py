"""Checks of memory that two processes share."""

from check import Check, fact, verdict
from lab import LIBRARY, Command


def shared_right(errors_allowed, judged):
    """Never wrong bytes; errors where the peer cannot know about us; no freed handle shows the new owner's bytes."""

    def judge(runs):
        result = runs["pair"].result
        blocks, stale = result["blocks"], result["stale"]
        wrong = [block["bytes"] for block in blocks if block["result"] == "wrong"]
        errors = [(block["bytes"], block["code"]) for block in blocks if block["result"] == "error"]
        leaked = [entry["case"] for entry in stale if entry["result"] in ("new owner's bytes", "other bytes")]
        good = not wrong and (errors_allowed or not errors) and not leaked
        shown = f"{sum(block['result'] == 'right' for block in blocks)} of {len(blocks)} blocks right"
        shown += f", errors {errors}" if errors else ""
        shown += f", WRONG BYTES {wrong}" if wrong else ""
        shown += "; freed handles: " + ", ".join(f"{e['case']} {e['result']} {e['code'] or ''}".strip() for e in stale)
        data = {"blocks": blocks, "stale": stale}
        return verdict(good, shown, **data) if judged else fact(shown, **data)

    return judge


def handed_over(runs):
    plain, preload = runs["plain"].result, runs["preload"].result
    good = plain["result"] == preload["result"] and preload["wrong"] == 0 and preload["peer_exit"] == 0
    return verdict(good, f"{len(preload['result'])} tensors, {preload['wrong']} wrong")


def altered(runs):
    answer = runs["plain"].result
    each = answer["each_byte"]
    opened = [i for i, code in enumerate(each) if code == -1]
    other = [i for i, code in enumerate(each) if code == -2]
    codes = sorted({code for code in each if code >= 0})
    whole = ", ".join(f"{part} -> {answer[part]}" for part in ("first_8", "first_16", "last_8", "all"))
    return fact(
        f"bytes altered: {whole} (-1: opens right, -2: opens other bytes); one byte: opens right at {opened}, "
        f"other bytes at {other}, errors {codes}",
        **answer,
    )


def pair(lab, name, question, preload, peer, errors_allowed=False, judged=True, env=None):
    command = Command("pair", lab.program("ipc_pair", peer), preload, env or {}, timeout=60)
    return Check(f"ipc:{name}", question, [command], shared_right(errors_allowed, judged), seconds=12)


def facts(lab):
    flip = Command("plain", lab.program("ipc_flip"), timeout=60)
    return [
        pair(lab, "driver", "What the bare driver does", False, "none", judged=False),
        Check("ipc:altered", "What does the driver answer to an altered handle?", [flip], altered, seconds=10),
    ]


def checks(lab):
    torch = [Command(label, lab.job("ipc_torch.py"), label == "preload", timeout=120) for label in ("plain", "preload")]
    return [
        Check("ipc:torch", "Do tensors arrive whole in a second process?", torch, handed_over, seconds=60),
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
