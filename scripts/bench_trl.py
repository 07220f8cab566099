"""Times GRPO steps of TRL on CPU, with the shapes of `skein bench step`. Prints one JSON line. See scripts/bench-peers."""

import argparse
import json
import os
import resource
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class StepTimes(TrainerCallback):
    """Wall seconds from the beginning to the end of each optimizer step; generation happens inside."""

    def __init__(self):
        self.seconds = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.started = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds.append(time.perf_counter() - self.started)


def prompts_of(path, tokenizer, num_tokens):
    """The file's prompts, each cut or repeated to `num_tokens` tokens where that is not 0."""
    with open(path) as lines:
        prompts = [json.loads(line)["prompt"] for line in lines]
    if num_tokens == 0:
        return prompts
    cut = []
    for prompt in prompts:
        ids = tokenizer(prompt)["input_ids"]
        ids = (ids * (num_tokens // len(ids) + 1))[:num_tokens]
        cut.append(tokenizer.decode(ids))
    return cut


def count_rewards(completions, **kwargs):
    """A cheap reward that differs within a group."""
    return [float(len(set(text)) % 7) for text in completions]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--prompt-tokens", type=int, default=0)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--max-new", type=int, default=64)
    parser.add_argument("--micro-batch", type=int, default=8, help="sequences per forward and backward pass")
    parser.add_argument("--kl-coef", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=1)
    args = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    prompts = prompts_of(args.prompts, tokenizer, args.prompt_tokens)
    batch = len(prompts) * args.group
    times = StepTimes()
    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            model_init_kwargs={"dtype": "float32"},
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=batch // args.micro_batch,
            num_generations=args.group,
            max_completion_length=args.max_new,
            # Every completion has the same length, as in `skein bench step`.
            generation_kwargs={"min_new_tokens": args.max_new},
            max_steps=args.steps,
            beta=args.kl_coef,
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=0,
        )
        trainer = GRPOTrainer(
            model=args.model,
            reward_funcs=count_rewards,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
            callbacks=[times],
        )
        with open(os.devnull, "w") as quiet:
            stdout, sys.stdout = sys.stdout, quiet
            trainer.train()
            sys.stdout = stdout
    lengths = [entry["completions/mean_length"] for entry in trainer.state.log_history if "completions/mean_length" in entry]
    print(
        json.dumps(
            {
                "bench": "trl_step",
                "threads": torch.get_num_threads(),
                "prompt_tokens": sum(len(tokenizer(prompt)["input_ids"]) for prompt in prompts),
                "completion_tokens_mean": lengths[-1] if lengths else None,
                "gradient_checkpointing": config.gradient_checkpointing,
                "micro_batch": args.micro_batch,
                "step_seconds_runs": times.seconds,
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
