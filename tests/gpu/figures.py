"""What the allocators were measured at: the better of two rounds for each, and the table of all."""

WIDTH = 11
# Without a limit nanoseconds per operation and reserved over peak live; least capacity, nanoseconds there.
TRACE = ("replay", "reserved", "min_cap", "capped")


def more_is_better(figure):
    return figure.startswith("thread")


class Figures:
    """`best` has a number by figure and allocator, `said` every number by round as well."""

    def __init__(self):
        self.best, self.said = {}, []

    def take(self, turn, who, rows):
        rows = [row for row in rows if "figure" in row]
        for row in rows:
            figure, value = row["figure"], row["value"]
            self.said.append([turn, who, figure, value])
            # What a later try of the same capacity says replaces the earlier.
            choose = max if more_is_better(figure) or figure.startswith("too_small") else min
            known = self.best.setdefault(figure, {})
            known[who] = choose(known.get(who, value), value)
        return len(rows)

    def of(self, figure, who="cenote"):
        return self.best.get(figure, {}).get(who)

    def named(self, prefix):
        """The rest of the names of all figures that begin so."""
        return [figure[len(prefix) :] for figure in self.best if figure.startswith(prefix)]

    def best_peer(self, figure):
        """The best peer's name and figure."""
        others = {who: value for who, value in self.best.get(figure, {}).items() if who != "cenote"}
        if not others:
            return None, None
        who = (max if more_is_better(figure) else min)(others, key=others.get)
        return who, others[who]

    def gain(self, figure):
        """How many times better than the best peer, or None."""
        ours, (_, theirs) = self.of(figure), self.best_peer(figure)
        if not ours or not theirs:
            return None
        return ours / theirs if more_is_better(figure) else theirs / ours


def shown(value):
    return "-" if value is None else f"{value:.{0 if value >= 1000 else 1 if value >= 10 else 2}f}"


def line(figures, figure, rows):
    gain, (who, _) = figures.gain(figure), figures.best_peer(figure)
    cells = "".join(f"{shown(figures.of(figure, row)):>{WIDTH}}" for row in ("cenote", *rows))
    return f"{figure:22}{cells}{f'  {gain:.2f} x {who}' if gain else ''}"


def table(figures, rows):
    """Every figure of every allocator, of those that somebody was measured at."""
    heads = ("hot:", "mix", "live", "threads:", "threadmix:", "hit:", "grid:", "dali:")
    chosen = [f for f in figures.best if f.startswith(heads) and not (f.startswith("hit:") and "alloc p99" not in f)]
    chosen.sort(key=lambda figure: next(place for place, head in enumerate(heads) if figure.startswith(head)))
    names = "".join(f"{who:>{WIDTH}}" for who in ("cenote", *rows))
    lines = [f"{'ns, or million/s':22}{names}  against the best peer"]
    lines += [line(figures, figure, rows) for figure in chosen]
    for head in ("refused", "cut"):
        lines += [f"{head} {name}: {figures.best[f'{head}:{name}']}" for name in figures.named(f"{head}:")]
    traces = figures.named("replay:")
    if traces:
        lines.append(f"\n{'trace':22}{'cenote':>{WIDTH}}{'':{3 * WIDTH}}{'expandable':>{WIDTH}}")
        lines.append(f"{'':22}" + "".join(f"{head:>{WIDTH}}" for head in TRACE * 2))
        for name in traces:
            cells = [figures.of(f"{head}:{name}", who) for who in ("cenote", "expandable") for head in TRACE]
            lines.append(f"{name:22}" + "".join(f"{'-' if cell is None else f'{cell:.5g}':>{WIDTH}}" for cell in cells))
    return "\n".join(lines)
