"""What a report (`cenote.report/1`) says, and whether it adds up. The only file here that knows the report's keys."""

import json

MIB = 1 << 20
FAULTS = ("internal_error", "report_not_written", "segments_left_out", "no_helper_thread", "configuration")


def read(path):
    with open(path) as file:
        return json.load(file)


def problems(path):
    """Everything in the report that contradicts itself."""
    try:
        return contradictions(read(path))
    except (OSError, ValueError) as error:
        return [f"not readable: {error}"]
    except (KeyError, TypeError, AttributeError) as error:
        return [f"not as expected: {type(error).__name__} {error}"]


def contradictions(report):
    found = []
    if report.get("schema") != "cenote.report/1":
        found.append(f"schema is {report.get('schema')!r}")
    if not report.get("complete"):
        found.append("not complete")
    found += [f"note {note['code']}: {note['text']}" for note in report.get("notes", []) if note["code"] in FAULTS]
    for device in report.get("devices", []):
        memory, pool = device["memory"], device["pool"]
        parts = memory["tracked_bytes"] + memory["context_bytes"] + memory["unaccounted_bytes"]
        if memory["sampled_unix_ns"] and parts != memory["driver_used_bytes"]:
            found.append(f"driver used {memory['driver_used_bytes']} is not tracked + context + unaccounted = {parts}")
        parts = pool["live_bytes"] + pool["cached_bytes"] + pool["waiting_bytes"] + pool["internal_bytes"]
        if parts != pool["reserved_bytes"]:
            found.append(f"reserved {pool['reserved_bytes']} is not live + cached + waiting + internal = {parts}")
        kinds = sum(live["bytes"] for live in memory["by_kind"].values())
        owners = sum(owner["bytes"] for owner in memory["by_owner"])
        if kinds != owners:
            found.append(f"by kind {kinds} B, by owner {owners} B")
        if pool["hits"] > pool["allocations"]:
            found.append(f"{pool['hits']} hits of {pool['allocations']} allocations")
    return found


def device(path):
    """The first device of the report."""
    devices = read(path)["devices"]
    return devices[0] if devices else None


def owned(path, owner):
    """Live bytes of one owner, as requested."""
    return sum(entry["bytes"] for entry in device(path)["memory"]["by_owner"] if entry["owner"] == owner)


def unaccounted(path):
    """Unaccounted bytes, and those of them that the report does not explain either."""
    memory = device(path)["memory"]
    return memory["unaccounted_bytes"], memory["unaccounted_bytes"] - sum(memory["unaccounted_known"].values())


def account(path):
    """The account of the card in one line, in MiB."""
    memory, pool = device(path)["memory"], device(path)["pool"]
    known = ", ".join(f"{cause} {size / MIB:.1f}" for cause, size in memory["unaccounted_known"].items())
    return (
        f"driver {memory['driver_used_bytes'] / MIB:.1f} = tracked {memory['tracked_bytes'] / MIB:.1f} + context "
        f"{memory['context_bytes'] / MIB:.1f} + unaccounted {memory['unaccounted_bytes'] / MIB:.1f} ({known}); "
        f"reserved {pool['reserved_bytes'] / MIB:.1f}, hits {pool['hits']} of {pool['allocations']}"
    )


def top_site(path):
    """The site that holds most: blocks and bytes live, sizes of its blocks, its owner."""
    site = max(read(path)["sites"], key=lambda site: site["live_bytes"], default=None)
    if site is None:
        return None
    return {key: site[key] for key in ("owner", "live_blocks", "live_bytes", "live_sizes")}


def peaks(path):
    """The most that the pool had from the driver, and the most that the program held of it."""
    pool = device(path)["pool"]
    return pool["peak_reserved_bytes"], pool["peak_live_bytes"]


def reason(path):
    return read(path)["reason"]


def order(path):
    """How reuse was ordered, and how often the pool served, hit, waited and recorded."""
    pool = device(path)["pool"]
    keys = (
        "allocations",
        "hits",
        "waits",
        "events_recorded",
        "driver_allocations",
        "driver_frees",
        "flushes",
        "peak_reserved_bytes",
    )
    return {"order": read(path)["coverage"]["order"]} | {key: pool[key] for key in keys}
