"""What cenote has to reach beside its peers: one check for each budget, on figures that were already taken."""

import statistics

from check import Check, Outcome, fact, verdict
from figures import shown

MIB = 1 << 20
SIZES = {"512": "512 B", "1m": "1 MiB", "20m": "20 MiB"}


class NotMeasured(Exception):
    pass


def need(figures, figure, who="cenote"):
    value = figures.of(figure, who)
    if value is None:
        raise NotMeasured(f"{who} has no figure {figure}")
    return value


def beside(figures, figure):
    """The best peer's figure in words."""
    who, theirs = figures.best_peer(figure)
    return "no peer measured" if who is None else f"{who} {shown(theirs)}, {figures.gain(figure):.1f} x"


def hot(figures):
    found = {size: need(figures, f"hot:{size}") for size in SIZES}
    gains = {size: figures.gain(f"hot:{size}") for size in SIZES}
    against = {size: beside(figures, f"hot:{size}") for size in SIZES}
    text = "; ".join(f"{said} {shown(found[size])} ns ({against[size]})" for size, said in SIZES.items())
    good = max(found.values()) <= 60 and all(gain and gain >= 5 for gain in gains.values())
    return verdict(good, f"{text}; target 60 ns and 5 x", ns=found, gains=gains)


def below(figure, most):
    """One figure of nanoseconds that has a most."""

    def judge(figures):
        found = need(figures, figure)
        return verdict(found <= most, f"{shown(found)} ns ({beside(figures, figure)}); target {most} ns", ns=found)

    return judge


def threads(figures):
    one, all16 = (need(figures, f"threads:{count}") for count in (1, 16))
    text = f"16 threads {shown(all16)} M pairs/s ({beside(figures, 'threads:16')}), {all16 / one:.1f} x one thread"
    return verdict(all16 >= 50 and all16 >= 8 * one, f"{text}; target 50 M and 8 x", one=one, sixteen=all16)


def hits(figures):
    """Of allocations and of frees; the longest are printed, but on a shared machine they are others' doing."""
    found = {
        f"{said} {kind}": [need(figures, f"hit:{size}:{kind} {place}") for place in ("p50", "p99", "max")]
        for size, said in SIZES.items()
        for kind in ("alloc", "free")
    }
    worst = max(found, key=lambda name: found[name][1])
    text = f"worst p99 of {len(found)}: {worst}: p50 {found[worst][0]:.0f}, p99 {found[worst][1]:.0f} ns"
    longest = max(times[2] for times in found.values())
    clock = need(figures, "clock")
    text += f"; longest {longest:.0f}; clock's own {clock:.0f} ns taken off"
    return verdict(found[worst][1] <= 1000, f"{text}; target p99 1000 ns", ns=found)


def grid(kind):
    def judge(figures):
        cells = [cell for cell in figures.named("grid:") if cell.endswith(kind)]
        gains = {cell.removesuffix(f":{kind}"): figures.gain(f"grid:{cell}") for cell in cells}
        gains = {cell: gain for cell, gain in gains.items() if gain}
        if not gains:
            raise NotMeasured("no cell of both cenote and a peer")
        slower = {cell: gain for cell, gain in sorted(gains.items(), key=lambda item: item[1]) if gain < 1}
        peer = {cell: figures.best_peer(f"grid:{cell}:{kind}")[0] for cell in slower}
        named = ", ".join(f"{cell} {gain:.2f} x {peer[cell]}" for cell, gain in slower.items())
        text = f"{len(gains)} cells, {min(gains.values()):.2f} to {max(gains.values()):.1f} x the best peer"
        return verdict(not slower, f"{text}; slower: {named or 'none'}", gains=gains)

    return judge


def dali(figures):
    names = [name for name in figures.named("dali:") if figures.gain(f"dali:{name}")]
    if not names:
        raise NotMeasured("no mix of both cenote and a peer")
    return fact("; ".join(f"{n} {shown(figures.of(f'dali:{n}'))} ns ({beside(figures, f'dali:{n}')})" for n in names))


def ours_of_traces(figures):
    names = [name for name in figures.named("replay:") if figures.of(f"replay:{name}")]
    if not names:
        raise NotMeasured("cenote replayed no trace")
    return names


def min_cap(figures):
    names = ours_of_traces(figures)
    caps = {name: figures.of(f"min_cap:{name}") for name in names}
    bounds = {name: max(1.005, 1 + 16 * MIB / need(figures, f"peak:{name}")) for name in names}
    missed = [name for name, cap in caps.items() if cap is None or cap > bounds[name] + 1e-5]
    failed = figures.named("failed:")
    tried = {name: figures.of(f"too_small:{name}") for name in missed}
    named = ", ".join(f"{name} {caps[name] or f'none up to {tried[name]}'}" for name in missed)
    most = max((cap for cap in caps.values() if cap), default=None)
    text = f"{len(names)} traces, most {most}; missed: {named or 'none'}"
    text += f"; out of memory without a limit: {', '.join(failed)}" if failed else ""
    return verdict(not missed and not failed, f"{text}; target 1.005, or 16 MiB above the peak", caps=caps)


def replay_time(figures):
    """Ours where memory is as short as it may be, theirs where it is plentiful."""
    names = [name for name in ours_of_traces(figures) if figures.of(f"replay:{name}", "expandable")]
    if not names:
        raise NotMeasured("expandable replayed no trace")
    shares = {}
    for name in names:
        ours = figures.of(f"capped:{name}")
        shares[name] = ours and ours / figures.of(f"replay:{name}", "expandable")
    missed = [name for name, share in shares.items() if share is None or share > 1]
    named = ", ".join(f"{name} {'-' if shares[name] is None else f'{shares[name]:.2f}'}" for name in missed)
    known = [share for share in shares.values() if share]
    middle = f"median {statistics.median(known):.2f}, " if known else ""
    text = f"{len(names)} traces, our time at the least capacity over expandable's without a limit: {middle}"
    return verdict(not missed, f"{text}above 1: {named or 'none'}", shares=shares)


BUDGETS = {
    "latency": (
        ("hot", "A pair of allocation and free, over and over", hot),
        ("mix", "1000 live blocks, one replaced at a time", below("mix", 100)),
        ("threads", "Pairs of 1 MiB by 16 threads on streams of their own", threads),
        ("hit", "Single allocations and frees", hits),
        ("live", "36,000 live blocks of up to 1 MiB", below("live", 300)),
    ),
    "grid": (
        ("grid", "RMM's random allocations, as RMM repeats them", grid("warm")),
        ("grid:cold", "RMM's random allocations, from an emptied pool", grid("cold")),
    ),
    "dali": (("dali", "DALI's mix", dali),),
    "capacity": (
        ("min_cap", "The least device memory that each trace gets by with, over its peak live bytes", min_cap),
        ("replay_time", "Is a replay in that little memory as fast as expandable segments in plenty?", replay_time),
    ),
}


def checks(figures, parts):
    def judged(judge):
        def answer(runs):
            try:
                return judge(figures)
            except NotMeasured as missing:
                return Outcome("skip", str(missing))

        return answer

    return [
        Check(name, question, [], judged(judge), 0, True) for part in parts for name, question, judge in BUDGETS[part]
    ]
