"""From nothing to the first collected env steps, as a script. For this project and for DI-engine."""

from __future__ import annotations

from bench_work import EPSILON
from ding_parts import Parts, arguments


def main() -> None:
    args = arguments(__doc__).parse_args([])
    parts = Parts(args, n_sample=args.envs)
    samples = parts.collector.collect(policy_kwargs={"eps": EPSILON})
    if len(samples) < args.envs:
        raise RuntimeError(f"collected {len(samples)} samples")
    parts.close()


if __name__ == "__main__":
    main()
