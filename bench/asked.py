"""A job's rounds and their medians, beside what is asked for. Exit code 1 if Troupe's median misses it.

asked.py FOLDER ROUNDS TITLE FIELD ASKED OURS [NAME=PEER...]

FOLDER has a file OURS.N for each round N from 1, and PEER.N for each peer, whose lines are JSON objects with FIELD: of
several lines of a round their median counts. Shown are Troupe's figure, its share of ASKED, and for each peer its
figure and how many times it Troupe has.
"""

import sys

from compare import median_of, table


def main():
    rounds, title, field, asked, ours, *peers = sys.argv[2:]
    asked = float(asked)
    names, files = zip(*(peer.split("=") for peer in peers)) if peers else ((), ())

    def show(troupe, *others):
        beside = "".join(f"{other:>18,.0f}{troupe / other:>9,.2f}x" for other in others)
        return f"{troupe:>14,.0f}{asked:>14,.0f}{troupe / asked:>9.0%}{beside}"

    print(f"{title}, {field.replace('_per_', '/')}")
    head = f"{'Troupe':>14}{'asked for':>14}{'share':>9}" + "".join(f"{name:>18}{'ratio':>10}" for name in names)
    figures = [[median_of(f"{what}.{n}", field) for what in (ours, *files)] for n in range(1, int(rounds) + 1)]
    median = table("", head, figures, show)[0]
    return 0 if median >= asked else 1


if __name__ == "__main__":
    sys.exit(main())
