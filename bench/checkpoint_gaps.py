"""Prints what the checkpoints of a run have cost: checkpoint_gaps.py EVENTS TIMELINE BYTES

EVENTS: the lines of `troupe train --json`; TIMELINE: what `troupe trace timeline --csv` makes of the run's recording, with the
steps of trainer 0 in it; BYTES: of one checkpoint. The last checkpoint, for whose end the run waits, does not count.
"""

import csv
import json
import statistics
import sys

events, timeline, size = sys.argv[1:]
with open(events) as file:
    taken = [event for event in map(json.loads, file) if event["event"] == "checkpoint"][:-1]
ends = {}  # ends of the steps, in seconds
with open(timeline) as file:
    for row in csv.DictReader(file):
        if row["kind"] == "step" and row["actor"] == "trainer 0":
            ends[int(row["step"])] = int(row["end_ns"]) / 1e9
# Gaps from the end of a step to that of the next, by the former.
gaps = [(ends[step], ends[step + 1] - ends[step]) for step in sorted(ends) if step + 1 in ends]
spans = [(ends[one["step"]], ends[one["step"]] + one["seconds"]) for one in taken]
longest = [max(gap for end, gap in gaps if first <= end <= last) for first, last in spans]
usual = [gap for end, gap in gaps if not any(first <= end <= last for first, last in spans)]
seconds = statistics.median(one["seconds"] for one in taken)
print(
    f"{1e3 * statistics.median(longest):10.1f} {1e3 * max(usual):10.1f} {1e3 * statistics.median(usual):10.2f} {seconds:8.2f}"
    f" {int(size) / 2**20 / seconds:8.0f}"
)
