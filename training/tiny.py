"""Writes models/tiny: a random Qwen3 target (whole and in two shards), its random DSpark drafter, and a random Llama 3.

The drafter taps the embedding (-1), has head_dim != hidden / heads, and carries its own copies of the embedding and the
head. The Llama leaves out rope_theta and head_dim and has a head of its own; its rope scaling bites within the prompts of
the tests. The tokenizer is the beginning of the demo's: 256 bytes and its first merges.
"""
import json
import pathlib

import numpy as np
import torch

import qwen3
import tensorfile
import tokenizer as tok

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
SEED = 7
VOCAB, HIDDEN, RANK = 512, 64, 8
TARGET = {**qwen3.CONFIG, "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 128, "num_hidden_layers": 6,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rope_theta": 1e6, "max_window_layers": 6,
          "max_position_embeddings": 1024, "bos_token_id": 508, "eos_token_id": 510}
DRAFTER = {**TARGET, "architectures": ["Qwen3DSparkModel"], "num_target_layers": 6, "num_hidden_layers": 2,
           "layer_types": ["full_attention"] * 2, "max_window_layers": 2, "block_size": 4, "mask_token_id": 511,
           "target_layer_ids": [-1, 1, 4], "tie_word_embeddings": False, "markov_rank": RANK, "markov_head_type": "vanilla",
           "enable_confidence_head": True, "confidence_head_with_markov": True, "num_anchors": 128}
LLAMA = {k: TARGET[k] for k in ("vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "hidden_act",
                                "rms_norm_eps", "max_position_embeddings", "attention_bias", "bos_token_id", "eos_token_id",
                                "torch_dtype", "transformers_version")}
LLAMA |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 96, "num_hidden_layers": 2,
          "mlp_bias": False, "pretraining_tp": 1, "tie_word_embeddings": False,
          "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                           "original_max_position_embeddings": 64, "rope_type": "llama3"}}


def matrix(rng, rows, columns, gain=1.0):
    return torch.from_numpy(rng.standard_normal((rows, columns)) * gain / columns ** 0.5).bfloat16()


def norm(rng, size):
    return torch.from_numpy(rng.uniform(0.5, 1.5, size)).bfloat16()


def layers(rng, c, prefix):
    h, f = c["hidden_size"], c["intermediate_size"]
    d = c.get("head_dim", h // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out = {}
    for i in range(c["num_hidden_layers"]):
        shapes = {"input_layernorm": (h,), "post_attention_layernorm": (h,), "self_attn.q_proj": (q, h),
                  "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, q),
                  "self_attn.q_norm": (d,), "self_attn.k_norm": (d,), "mlp.gate_proj": (f, h), "mlp.up_proj": (f, h),
                  "mlp.down_proj": (h, f)}
        if c["model_type"] == "llama":
            del shapes["self_attn.q_norm"], shapes["self_attn.k_norm"]
        for name, shape in shapes.items():
            value = norm(rng, *shape) if len(shape) == 1 else matrix(rng, *shape, gain=1.5)
            out[f"{prefix}layers.{i}.{name}.weight"] = value
    return out


def target_tensors(rng):
    # Rows of length about 2.4: the logits then spread by a few units.
    return {"model.embed_tokens.weight": matrix(rng, VOCAB, HIDDEN, gain=2.4), **layers(rng, TARGET, "model."),
            "model.norm.weight": norm(rng, HIDDEN)}


def llama_tensors(rng):
    return {"model.embed_tokens.weight": matrix(rng, VOCAB, HIDDEN, gain=2.4), **layers(rng, LLAMA, "model."),
            "model.norm.weight": norm(rng, HIDDEN), "lm_head.weight": matrix(rng, VOCAB, HIDDEN, gain=2.4)}


def drafter_tensors(rng, target):
    embedding = target["model.embed_tokens.weight"]
    return {"embed_tokens.weight": embedding, "lm_head.weight": embedding, "fc.weight": matrix(rng, HIDDEN, 3 * HIDDEN),
            "hidden_norm.weight": norm(rng, HIDDEN), **layers(rng, DRAFTER, ""), "norm.weight": norm(rng, HIDDEN),
            "markov_head.markov_w1.weight": matrix(rng, VOCAB, RANK, gain=RANK ** 0.5),
            "markov_head.markov_w2.weight": matrix(rng, VOCAB, RANK, gain=2.0),
            "confidence_head.proj.weight": matrix(rng, 1, HIDDEN + RANK, gain=2.0),
            "confidence_head.proj.bias": torch.tensor([0.25]).bfloat16()}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_sharded(folder, tensors):
    names, index, count = list(tensors), {}, 2
    for i in range(count):
        file = f"model-{i + 1:05}-of-{count:05}.safetensors"
        # Alternating names: every layer then lies in both files.
        mine = names[i::count]
        tensorfile.save(folder / file, {n: tensors[n] for n in mine})
        index.update((n, file) for n in mine)
    total = sum(2 * t.numel() for t in tensors.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))})


def main():
    demo = json.loads((MODELS / "demo/target/tokenizer.json").read_text("utf-8"))
    merges = [tuple(m.split(" ")) for m in demo["model"]["merges"][:VOCAB - 256 - len(tok.SPECIALS)]]
    rng = np.random.default_rng(SEED)
    target = target_tensors(rng)
    for name in ("target", "target_sharded"):
        folder = MODELS / "tiny" / name
        tok.write_files(folder, merges, context=TARGET["max_position_embeddings"])
        write_json(folder / "config.json", TARGET)
        if name == "target":
            tensorfile.save(folder / "model.safetensors", target)
        else:
            write_sharded(folder, target)
    folder = MODELS / "tiny/llama"
    tok.write_files(folder, merges, context=LLAMA["max_position_embeddings"])
    write_json(folder / "config.json", LLAMA)
    tensorfile.save(folder / "model.safetensors", llama_tensors(np.random.default_rng(SEED + 1)))
    folder = MODELS / "tiny/dspark"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", DRAFTER)
    tensorfile.save(folder / "model.safetensors", drafter_tensors(rng, target))


if __name__ == "__main__":
    main()
