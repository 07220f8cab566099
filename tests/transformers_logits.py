"""Logits and token ids of Hugging Face transformers for directories that Skein wrote.

usage: transformers_logits.py DIR...

Each DIR is a model directory that also holds input_ids.json (a list of rows); DIR/logits.safetensors is written. Weights
keep the type that config.json states. Any warning about the weights is an error. Where DIR holds texts.json (a list),
DIR/token_ids.json is written: the ids its tokenizer gives for each text.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

for argument in sys.argv[1:]:
    directory = pathlib.Path(argument)
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            sys.exit(f"{directory}: {problem}: {info[problem]}")
    input_ids = torch.tensor(json.loads((directory / "input_ids.json").read_text()))
    with torch.no_grad():
        logits = model(input_ids=input_ids).logits
    save_file({"logits": logits.contiguous()}, directory / "logits.safetensors")
    if (texts := directory / "texts.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(directory)
        token_ids = [tokenizer.encode(text, add_special_tokens=False) for text in json.loads(texts.read_text())]
        (directory / "token_ids.json").write_text(json.dumps(token_ids))
