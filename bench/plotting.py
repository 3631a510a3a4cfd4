"""Pictures of what the scripts of this folder measure, as SVG."""

COLOURS = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e5ea2", "#c77f00", "#555555"]


def lines(path, title, ticks, series):
    """Draws samples/s over `ticks`, evenly spaced, into a file. `series`: (name, samples/s at each tick, dashed)."""
    width, height, left, right, bottom, top = 640, 320, 80, 150, 40, 30
    most = max(max(rates) for _, rates, _ in series) * 1.1

    def x(i):
        return left + i * (width - left - right - 20) / (len(ticks) - 1)

    def y(rate):
        return height - bottom - rate / most * (height - bottom - top)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="18" font-weight="bold">{title}</text>']
    digits = 0 if most > 10000 else 1
    for share in (0, 0.25, 0.5, 0.75, 1):
        rate = most / 1.1 * share
        parts.append(f'<line x1="{left}" x2="{width - right - 10}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" '
                     f'stroke="#ddd"/><text x="{left - 8}" y="{y(rate) + 4:.1f}" text-anchor="end">'
                     f'{rate / 1000:,.{digits}f}k</text>')
    for i, tick in enumerate(ticks):
        parts.append(f'<text x="{x(i):.1f}" y="{height - 18}" text-anchor="middle">{tick}</text>')
    drawn = [(rates, colour, name, dashed) for (name, rates, dashed), colour in zip(series, COLOURS)]
    below = 0  # names stand at the ends of their lines, moved down so that none covers another
    for rates, colour, name, dashed in sorted(drawn, key=lambda one: -one[0][-1]):
        points = " ".join(f"{x(i):.1f},{y(rate):.1f}" for i, rate in enumerate(rates))
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        below = max(y(rates[-1]) + 4, below + 14)
        parts.append(f'<text x="{width - right}" y="{below:.1f}" fill="{colour}">{name}</text>')
    parts.append("</svg>\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))
