"""Writes the other random drafters of models/tiny/target, one of every layout that a loader must tell apart.

Some carry the embedding and the head and some leave them to the target. Weights are drawn by name, so that a new drafter
leaves the others as they are.
"""
import zlib

import numpy as np
import torch

import tensorfile
import tiny

FOLDER = tiny.MODELS / "tiny"
RANK, DRAFT_VOCAB, BLOCK, STEPS = tiny.RANK, 128, 4, 4
HIDDEN, VOCAB, HEAD_DIM = tiny.HIDDEN, tiny.VOCAB, tiny.TARGET["head_dim"]
HEADS, MEDUSA_LAYERS = 3, 2
EAGLE_TAPS = [0, 2, 4]


def copies(target):
    embedding = target["model.embed_tokens.weight"]
    return {"embed_tokens.weight": embedding, "lm_head.weight": embedding}


def backbone(rng):
    return {"fc.weight": tiny.matrix(rng, HIDDEN, 3 * HIDDEN), "hidden_norm.weight": tiny.norm(rng, HIDDEN),
            **tiny.layers(rng, tiny.DRAFTER, ""), "norm.weight": tiny.norm(rng, HIDDEN)}


def heads(rng):
    return {"markov_head.markov_w1.weight": tiny.matrix(rng, VOCAB, RANK, gain=RANK ** 0.5),
            "markov_head.markov_w2.weight": tiny.matrix(rng, VOCAB, RANK, gain=2.0),
            "confidence_head.proj.weight": tiny.matrix(rng, 1, HIDDEN + RANK, gain=2.0),
            "confidence_head.proj.bias": torch.tensor([0.25]).bfloat16()}


def bias(rng, size):
    return torch.from_numpy(rng.standard_normal(size) * 0.5).bfloat16()


def dspark_gated(rng, target):
    gate = {"markov_head.gate_proj.weight": tiny.matrix(rng, RANK, HIDDEN + RANK, gain=2.0), "markov_head.gate_proj.bias": bias(rng, RANK)}
    return {**tiny.DRAFTER, "markov_head_type": "gated"}, {**copies(target), **backbone(rng), **heads(rng), **gate}


def dspark_rnn(rng, target):
    joint = {"markov_head.joint_proj.weight": tiny.matrix(rng, 3 * RANK, 2 * RANK + HIDDEN, gain=2.0),
             "markov_head.joint_proj.bias": bias(rng, 3 * RANK)}
    return {**tiny.DRAFTER, "markov_head_type": "rnn"}, {**backbone(rng), **heads(rng), **joint}


def dspark_speculators(rng, target):
    """The weights of tiny/dspark in a config of the speculators library: another numbering of layers, the fill-in layout."""
    c = tiny.DRAFTER
    layer = {k: v for k, v in tiny.TARGET.items() if k != "architectures"} | {k: c[k] for k in ("num_hidden_layers", "layer_types", "max_window_layers")}
    config = {"architectures": ["DSparkDraftModel"], "speculators_model_type": "dspark", "transformer_layer_config": layer,
              "speculators_config": {"algorithm": "dspark", "default_proposal_method": "greedy",
                                     "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": BLOCK - 1}],
                                     "verifier": {"name_or_path": "../target", "architectures": tiny.TARGET["architectures"]}},
              "aux_hidden_state_layer_ids": [i + 1 for i in c["target_layer_ids"]], "torch_dtype": "bfloat16",
              **{k: c[k] for k in ("block_size", "mask_token_id", "markov_rank", "markov_head_type", "enable_confidence_head",
                                   "confidence_head_with_markov")}, "draft_vocab_size": VOCAB, "tie_word_embeddings": False}
    return config, tensorfile.load(FOLDER / "dspark/model.safetensors")


def dflash(rng, target):
    config = {**tiny.DRAFTER, "markov_rank": 0, "enable_confidence_head": False, "confidence_head_with_markov": False}
    return config, {**copies(target), **backbone(rng)}


def dflash_zlab(rng, target):
    drop = ("target_layer_ids", "mask_token_id", "markov_rank", "markov_head_type", "enable_confidence_head",
            "confidence_head_with_markov", "num_anchors")
    config = {**{k: v for k, v in tiny.DRAFTER.items() if k not in drop}, "architectures": ["DFlashDraftModel"],
              "dflash_config": {"mask_token_id": 511, "target_layer_ids": [1, 2, 4]}}
    return config, backbone(rng)


def eagle_layer(rng, name, norms):
    q, kv, f = 4 * HEAD_DIM, 2 * HEAD_DIM, tiny.TARGET["intermediate_size"]
    shapes = {"hidden_norm": (HIDDEN,), "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
              "self_attn.q_proj": (q, 2 * HIDDEN), "self_attn.k_proj": (kv, 2 * HIDDEN), "self_attn.v_proj": (kv, 2 * HIDDEN),
              "self_attn.o_proj": (HIDDEN, q), "mlp.gate_proj": (f, HIDDEN), "mlp.up_proj": (f, HIDDEN), "mlp.down_proj": (HIDDEN, f)}
    shapes |= {n: (HEAD_DIM,) for n in norms}
    return {f"{name}.{n}.weight": tiny.norm(rng, *s) if len(s) == 1 else tiny.matrix(rng, *s, gain=1.5) for n, s in shapes.items()}


def eagle3(rng, target):
    config = {**tiny.TARGET, "architectures": ["Qwen3Eagle3Model"], "num_target_layers": 6, "num_hidden_layers": 1,
              "layer_types": ["full_attention"], "max_window_layers": 1, "target_layer_ids": EAGLE_TAPS,
              "tie_word_embeddings": False, "ttt_length": STEPS, "step_loss_decay": 0.8}
    return config, {**copies(target), "fc.weight": tiny.matrix(rng, HIDDEN, 3 * HIDDEN), "norm.weight": tiny.norm(rng, HIDDEN),
                    **eagle_layer(rng, "layers.0", ("self_attn.q_norm", "self_attn.k_norm"))}


def eagle3_specforge(rng, target):
    """Llama's layer, another RoPE base than the target's, a head over a quarter of the vocabulary, the target's embedding."""
    chosen = torch.from_numpy(np.sort(rng.permutation(VOCAB)[:DRAFT_VOCAB]))
    config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "vocab_size": VOCAB, "draft_vocab_size": DRAFT_VOCAB,
              "hidden_size": HIDDEN, "target_hidden_size": HIDDEN, "intermediate_size": tiny.TARGET["intermediate_size"],
              "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD_DIM, "hidden_act": "silu",
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "max_position_embeddings": 1024,
              "attention_bias": False, "tie_word_embeddings": False, "bos_token_id": 508, "eos_token_id": 510, "torch_dtype": "bfloat16",
              "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [i + 1 for i in EAGLE_TAPS]}}
    mask = torch.zeros(VOCAB, dtype=torch.bool)
    mask[chosen] = True
    return config, {"fc.weight": tiny.matrix(rng, HIDDEN, 3 * HIDDEN), **eagle_layer(rng, "midlayer", ()),
                    "norm.weight": tiny.norm(rng, HIDDEN), "lm_head.weight": tiny.matrix(rng, DRAFT_VOCAB, HIDDEN, gain=2.4),
                    "d2t": chosen - torch.arange(DRAFT_VOCAB), "t2d": mask}


def eagle(rng, target):
    """One layer without a norm before its attention, a bias in fc; embedding and head are the target's."""
    config = {"architectures": ["EagleLlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN,
              "intermediate_size": tiny.TARGET["intermediate_size"], "num_hidden_layers": 1, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": HEAD_DIM, "hidden_act": "silu", "rms_norm_eps": 1e-5, "bias": True,
              "max_position_embeddings": 1024, "tie_word_embeddings": False, "bos_token_id": 508, "eos_token_id": 510,
              "torch_dtype": "bfloat16"}
    q, kv, f = 4 * HEAD_DIM, 2 * HEAD_DIM, tiny.TARGET["intermediate_size"]
    shapes = {"post_attention_layernorm": (HIDDEN,), "self_attn.q_proj": (q, HIDDEN), "self_attn.k_proj": (kv, HIDDEN),
              "self_attn.v_proj": (kv, HIDDEN), "self_attn.o_proj": (HIDDEN, q), "mlp.gate_proj": (f, HIDDEN),
              "mlp.up_proj": (f, HIDDEN), "mlp.down_proj": (HIDDEN, f)}
    layer = {f"layers.0.{n}.weight": tiny.norm(rng, *s) if len(s) == 1 else tiny.matrix(rng, *s, gain=1.5) for n, s in shapes.items()}
    return config, {"fc.weight": tiny.matrix(rng, HIDDEN, 2 * HIDDEN, gain=0.8), "fc.bias": bias(rng, HIDDEN), **layer}


def eagle3_speculators(rng, target):
    """All that the speculators format may add: norms of features, residual and output, a bias in fc; layers by default."""
    layer = {"model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": tiny.TARGET["intermediate_size"],
             "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD_DIM, "hidden_act": "silu",
             "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 1024, "attention_bias": False}
    config = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "transformer_layer_config": layer,
              "speculators_config": {"algorithm": "eagle3", "default_proposal_method": "greedy",
                                     "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": STEPS - 1}],
                                     "verifier": {"name_or_path": "../target", "architectures": tiny.TARGET["architectures"]}},
              "eagle_aux_hidden_state_layer_ids": None, "target_hidden_size": None, "draft_vocab_size": VOCAB,
              "norm_before_residual": True, "norm_before_fc": True, "norm_output": True, "fc_norm": False, "torch_dtype": "bfloat16"}
    return config, {"fc.weight": tiny.matrix(rng, HIDDEN, 3 * HIDDEN), "fc.bias": bias(rng, HIDDEN),
                    "input_norm.weight": tiny.norm(rng, 3 * HIDDEN), **eagle_layer(rng, "layers.0", ()),
                    "norm.weight": tiny.norm(rng, HIDDEN), "embed_tokens.weight": tiny.matrix(rng, VOCAB, HIDDEN, gain=2.4)}


def medusa(rng, target):
    config = {"architectures": ["MedusaModel"], "model_type": "medusa", "medusa_num_heads": HEADS, "medusa_num_layers": MEDUSA_LAYERS,
              "hidden_size": HIDDEN, "vocab_size": VOCAB, "base_model_name_or_path": "../target", "torch_dtype": "bfloat16"}
    tensors = {}
    for i in range(HEADS):
        for j in range(MEDUSA_LAYERS):
            tensors |= {f"{i}.{j}.linear.weight": tiny.matrix(rng, HIDDEN, HIDDEN), f"{i}.{j}.linear.bias": bias(rng, HIDDEN)}
        tensors[f"{i}.{MEDUSA_LAYERS}.weight"] = tiny.matrix(rng, VOCAB, HIDDEN, gain=2.4)
    return config, tensors


def main():
    target = tensorfile.load(FOLDER / "target/model.safetensors")
    for make in (dspark_gated, dspark_rnn, dspark_speculators, dflash, dflash_zlab, eagle, eagle3, eagle3_specforge, eagle3_speculators, medusa):
        name = make.__name__
        config, tensors = make(np.random.default_rng([tiny.SEED, zlib.crc32(name.encode())]), target)
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        tiny.write_json(FOLDER / name / "config.json", config)
        tensorfile.save(FOLDER / name / "model.safetensors", tensors)


if __name__ == "__main__":
    main()
