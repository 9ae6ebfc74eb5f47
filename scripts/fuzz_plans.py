"""Plans thousands of random stacks and holds each to the invariants of tests/planning/plan_fuzz.py: the long form of that test.

Prints how many plans ended with which verdict, and every broken invariant with the settings that broke it.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from tests.planning.plan_fuzz import Tally, run


def main() -> int:
    """Plan, judge and print. Return 1 where an invariant is broken."""
    parser = argparse.ArgumentParser(prog="fuzz_plans", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="plans (default 5000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same plans (default 1)")
    parser.add_argument("--show", type=int, default=5, help="examples of each broken invariant (default 5)")
    options = parser.parse_args()
    began = time.monotonic()
    tally = run(options.seed, options.count)
    report(tally, options.seed, time.monotonic() - began, options.show)
    return 1 if tally.faults else 0


def report(tally: Tally, seed: int, seconds: float, show: int) -> None:
    """Print the verdicts, and for each broken invariant at most `show` examples."""
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(tally.verdicts.items()))
    print(f"seed {seed}: {tally.plans:,} plans in {seconds:.0f} s ({verdicts}); {tally.fixes:,} fixes followed")
    counts = Counter(invariant for invariant, _, _ in tally.faults)
    for invariant, count in counts.most_common():
        print(f"\n{invariant}: broken {count} times")
        for _, seen, case in [fault for fault in tally.faults if fault[0] == invariant][:show]:
            print(f"  {seen}\n    {dict(case.base)} with {dict(case.typed)}")
    print("every invariant held" if not counts else f"\n{len(tally.faults)} times an invariant was broken")


if __name__ == "__main__":
    raise SystemExit(main())
