"""Alternates `skein bench step` with scripts/bench_trl.py and compares them. See scripts/bench-peers."""

import argparse
import json
import statistics
import subprocess
import sys

MODEL = "models/SmolLM2-135M-Instruct"
PROMPTS = "data/bench_prompts.jsonl"
# Small enough that activations stay small, large enough that the matrix products run at full speed.
MICRO_BATCH_TOKENS = "1024"


def run(command):
    """The JSON object on the last line of a command's output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    line = done.stdout.strip().splitlines()[-1]
    print(line, flush=True)
    return json.loads(line)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench-peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, nargs="+", default=[40, 400])
    args = parser.parse_args()

    table = []
    for tokens in args.prompt_tokens:
        shape = ["--model", MODEL, "--prompts", PROMPTS, "--prompt-tokens", str(tokens)]
        skein = ["target/release/skein", "bench", "step", *shape, "--repeats", "1", "--json"]
        skein += ["--micro-batch-tokens", MICRO_BATCH_TOKENS]
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(run(skein))
            theirs.append(run([sys.executable, "scripts/bench_trl.py", *shape]))
        floor = ours[0]["floor_bytes"]

        def median(runs, value):
            return statistics.median(value(result) for result in runs)

        def seconds(result):
            return result["step_seconds_runs"][0]

        def above_floor(result):
            return (result["peak_rss_bytes"] - floor) / 1e9

        our_step, their_step = median(ours, seconds), median(theirs, seconds)
        our_memory, their_memory = median(ours, above_floor), median(theirs, above_floor)
        table.append((tokens, our_step, their_step, their_step / our_step, our_memory, their_memory, their_memory / our_memory))

    print(f"\nmedians of {args.rounds}; memory is the peak above {floor / 1e9:.2f} GB of weights, gradients, moments and reference")
    print(f"{'prompt tokens':>13} {'Skein s':>8} {'TRL s':>8} {'faster':>7} {'Skein GB':>9} {'TRL GB':>7} {'smaller':>8}")
    for tokens, our_step, their_step, faster, our_memory, their_memory, smaller in table:
        print(
            f"{tokens:>13} {our_step:>8.1f} {their_step:>8.1f} {faster:>6.2f}x "
            f"{our_memory:>9.2f} {their_memory:>7.2f} {smaller:>7.2f}x"
        )


if __name__ == "__main__":
    main()
