"""Reads metrics from standard input with the reference parser, and prints the samples as JSON lines.

The parser is strict: a family that comes twice, a counter without _total, a bad escape or a missing end are errors.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

for family in text_string_to_metric_families(sys.stdin.read()):
    if not family.documentation:
        sys.exit(f"{family.name} has no HELP")
    for sample in family.samples:
        # A float holds no PN above 2^53; the figures that are compared here are smaller.
        print(json.dumps([family.name, family.type, sample.name, sample.labels, int(sample.value)]))
