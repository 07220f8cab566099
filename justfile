# Shortcuts to scripts/; each works without just, too.

# List the recipes.
default:
    @just --list

# Prepare a clone: libtorch in .venv.
setup *arguments:
    scripts/setup {{arguments}}

# Formatting, lints, tests (needs what `just test` prepares).
check *arguments:
    scripts/check {{arguments}}

# Set up whatever is missing, then check.
test *arguments:
    scripts/test {{arguments}}

# What CI does: test, then the main job for about a minute.
ci:
    .ci/run

# Train the embedded default and print its table.
demo *arguments:
    scripts/demo {{arguments}}

# Format the code.
fmt:
    cargo fmt --all

# Rollout throughput of SmolLM2-135M-Instruct against the bound of its own matrix products.
bench:
    scripts/get-model smollm2
    cargo run --release -- bench rollout --model models/SmolLM2-135M-Instruct --prompts data/bench_prompts.jsonl --group 8 --max-new 64 --json
