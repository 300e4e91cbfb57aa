"""Reference outputs for the tests: a plain float64 forward pass of the Qwen3 and Llama targets.

Shares no code with training; it reads the model directories alone. `golden.py --all` rewrites what tests/golden holds about
texts and targets; golden_drafters.py does the rest.
"""
import argparse
import json
import os
import pathlib
import struct
import unicodedata

import numpy as np
import regex

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS, OUT = ROOT / "models", ROOT / "tests/golden"
GREEDY_TOKENS = 32
TINY_SAMPLES = ["The database file is locked.", "Fellow citizens of the Senate", "import sys\nprint(sys.argv)"]
TOKENIZER_SAMPLES = [
    "", "Hello, world!", " leading and trailing ", "It's what we'LL do; they've DONE it.", "a  b   c\t\td\n\n\ne \n f",
    "SELECT * FROM t WHERE id = 12345;", "def f(x):\n    return x ** 2  # square\n", "caf\u00e9 na\u00efve \u00fcber stra\u00dfe",
    "e\u0301 composed by NFC", "\u6f22\u5b57\u3068\u304b\u306a", "emoji \U0001f600\U0001f44d\U0001f3fd!", "\r\nwindows\r\nlines\r\n",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|> is special, <|im_other|> is not", "x=1.5e-10, y=\u00bd \u0663",
]


# ---- files -----------------------------------------------------------------------------------------------------------

def read_safetensors(path, dtype):
    """Every tensor, widened to `dtype`."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":  # the upper half of a float32
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2", "I64": "<i8", "BOOL": "?"}[entry["dtype"]])
        out[name] = values.astype(dtype).reshape(entry["shape"])
    return out


def write_safetensors(path, arrays):
    header, body = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        dtype = {"float32": "F32", "int32": "I32"}[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, struct.pack("<Q", len(text)) + text + body)


def write_file(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


def write_json(path, value):
    """Indented, but with every list of numbers on one line."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    text = regex.sub(r"\[\s+(-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*)\s+\]", lambda m: "[" + regex.sub(r"\s+", " ", m[1]) + "]", text)
    write_file(path, (text + "\n").encode())


# ---- text ------------------------------------------------------------------------------------------------------------

class Text:
    """Byte-level BPE from tokenizer.json: split, map bytes to characters, merge the lowest rank first."""

    def __init__(self, folder):
        data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        self.split = regex.compile(data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"])
        self.vocab = data["model"]["vocab"]
        self.rank = {tuple(merge.split(" ")): i for i, merge in enumerate(data["model"]["merges"])}
        self.added = {t["content"]: t["id"] for t in data["added_tokens"]}
        plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
        others = [b for b in range(256) if b not in plain]
        self.char = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}
        self.byte = {c: b for b, c in self.char.items()}
        self.token = {i: t for t, i in self.vocab.items()}

    def word(self, text):
        parts = [self.char[b] for b in text.encode()]
        while True:
            ranks = [self.rank.get(pair, len(self.rank)) for pair in zip(parts, parts[1:])]
            if not ranks or min(ranks) == len(self.rank):
                return [self.vocab[p] for p in parts]
            i = ranks.index(min(ranks))
            parts[i:i + 2] = [parts[i] + parts[i + 1]]

    def encode(self, text):
        ids = []
        for piece in regex.split("(" + "|".join(regex.escape(s) for s in self.added) + ")", text):
            if piece in self.added:
                ids.append(self.added[piece])
            else:
                for match in self.split.finditer(unicodedata.normalize("NFC", piece)):
                    ids += self.word(match.group())
        return ids

    def decode(self, ids):
        names = {i: s for s, i in self.added.items()}
        raw = b"".join(names[i].encode() if i in names else bytes(self.byte[c] for c in self.token[i]) for i in ids)
        return raw.decode("utf-8", "replace")


# ---- the forward pass ------------------------------------------------------------------------------------------------

def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rope_frequencies(config, half):
    """Radians per position. Llama 3 stretches the slow ones: "wavelength" is positions per turn."""
    frequency = config.get("rope_theta", 10000.0) ** (-np.arange(half) / half)
    scaling = config.get("rope_scaling")
    if not scaling:
        return frequency
    assert scaling["rope_type"] == "llama3"
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    out = []
    for f in frequency:
        wavelength = 2 * np.pi / f
        if wavelength < original / high:
            out.append(f)
        elif wavelength > original / low:
            out.append(f / factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append((1 - smooth) * f / factor + smooth * f)
    return np.array(out)


def rope(x, positions, frequency):
    """x [rows, heads, D]; dimension i is paired with i + D/2."""
    half = x.shape[-1] // 2
    angle = np.asarray(positions)[:, None, None] * frequency
    a, b, cos, sin = x[..., :half], x[..., half:], np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, visible):
    """q [rows, H, D], k and v [keys, KV, D], visible [rows, keys]. Query head h reads kv head h // (H / KV)."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = q.transpose(1, 0, 2) @ k.transpose(1, 2, 0) * q.shape[-1] ** -0.5
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(len(q), -1)


class Network:
    """What target and drafter share: the configuration, the tensors, the parts of a layer."""

    def __init__(self, folder, prefix, dtype):
        self.config = json.loads((folder / "config.json").read_text())
        self.config |= self.config.get("transformer_layer_config", {})  # where the speculators library keeps the sizes
        self.tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            self.tensors.update(read_safetensors(path, dtype))
        self.prefix, self.eps = prefix, self.config["rms_norm_eps"]
        self.head_dim = self.config.get("head_dim", self.config["hidden_size"] // self.config["num_attention_heads"])
        self.frequency = rope_frequencies(self.config, self.head_dim // 2)

    def weight(self, name):
        return self.tensors[f"{self.prefix}{name}.weight"]

    def norm(self, x, name):
        return rms_norm(x, self.weight(name), self.eps)

    def heads(self, x, layer, which, positions):
        """Projects to heads; queries and keys are normalised per head (Qwen3's are) and then rotated."""
        x = x @ self.weight(f"layers.{layer}.self_attn.{which}_proj").T
        x = x.reshape(len(x), -1, self.head_dim)
        if which == "v":
            return x
        if f"{self.prefix}layers.{layer}.self_attn.{which}_norm.weight" in self.tensors:
            x = self.norm(x, f"layers.{layer}.self_attn.{which}_norm")
        return rope(x, positions, self.frequency)

    def finish_layer(self, x, layer, attended):
        x = x + attended @ self.weight(f"layers.{layer}.self_attn.o_proj").T
        u = self.norm(x, f"layers.{layer}.post_attention_layernorm")
        name = f"layers.{layer}.mlp."
        return x + (silu(u @ self.weight(name + "gate_proj").T) * (u @ self.weight(name + "up_proj").T)) @ self.weight(name + "down_proj").T


class Target(Network):
    def __init__(self, folder, dtype=np.float64):
        super().__init__(folder, "model.", dtype)
        self.embedding = self.weight("embed_tokens")
        self.head = self.embedding if self.config["tie_word_embeddings"] else self.tensors["lm_head.weight"]

    def forward(self, ids, taps=(), cache=None):
        """Logits [n, V] and features [n, taps * h] of `ids`, which follow what `cache` holds (a list, filled here)."""
        cache = [] if cache is None else cache
        past = len(cache[0][0]) if cache else 0
        positions = past + np.arange(len(ids))
        visible = np.arange(past + len(ids)) <= positions[:, None]
        x = self.embedding[np.asarray(ids)]
        features = {-1: x}
        for i in range(self.config["num_hidden_layers"]):
            u = self.norm(x, f"layers.{i}.input_layernorm")
            q, k, v = (self.heads(u, i, which, positions) for which in "qkv")
            if past:
                k, v = np.concatenate([cache[i][0], k]), np.concatenate([cache[i][1], v])
                cache[i] = k, v
            else:
                cache.append((k, v))
            x = features[i] = self.finish_layer(x, i, attend(q, k, v, visible))
        features["final"] = self.norm(x, "norm")
        logits = features["final"] @ self.head.T
        return logits, np.concatenate([features[t] for t in taps], -1) if taps else None

    def continue_greedily(self, ids, count, taps):
        """`count` further tokens, and the features of all positions but the last token's."""
        cache, out = [], []
        logits, features = self.forward(ids, taps, cache)
        features = [features]
        while True:
            out.append(int(logits[-1].argmax()))
            if len(out) == count:
                return out, np.concatenate(features)
            logits, new = self.forward(out[-1:], taps, cache)
            features.append(new)


# ---- what the tests read ---------------------------------------------------------------------------------------------

def f32(x):
    return np.asarray(x, np.float32)


def i32(x):
    return np.asarray(x, np.int32)


def target_golden(name, target, taps, prompts):
    arrays, index = {}, {"target_layer_ids": taps, "eos_stops": False, "prompts": []}
    for p, (ids, about) in enumerate(prompts):
        logits, features = target.forward(ids, taps)
        greedy, _ = target.continue_greedily(ids, GREEDY_TOKENS, taps)
        rows = sorted({0, 1, len(ids) // 2, len(ids) - 1})
        arrays |= {f"prompt{p}.input_ids": i32(ids), f"prompt{p}.rows": i32(rows), f"prompt{p}.logits": f32(logits[rows]),
                   f"prompt{p}.features": f32(features), f"prompt{p}.greedy": i32(greedy)}
        index["prompts"].append({**about, "input_ids": ids, "rows": rows, "greedy": greedy})
    write_safetensors(OUT / f"{name}.safetensors", arrays)
    write_json(OUT / f"{name}.json", index)


def demo_prompts():
    return [json.loads(line) for line in (MODELS / "demo/prompts.jsonl").read_text("utf-8").splitlines()]


def tokenizer_golden(name, text, extra):
    rows = [{"text": sample, "ids": text.encode(sample)} for sample in TOKENIZER_SAMPLES + extra]
    assert all(text.decode(row["ids"]) == unicodedata.normalize("NFC", row["text"]) for row in rows)
    write_json(OUT / f"{name}_tokenizer.json", rows)


def short_demo_prompts(text, kinds, count):
    """The first `count` tokens of the first prompt of every kind."""
    rows = [next(row for row in demo_prompts() if row["kind"] == kind) for kind in kinds]
    return [(text.encode(row["prompt"])[:count], {"id": row["id"], "kind": row["kind"]}) for row in rows]


def tiny_prompts(text):
    return [(text.encode(sample), {"text": sample}) for sample in TINY_SAMPLES]


def demo_golden():
    text, target = Text(MODELS / "demo/target"), Target(MODELS / "demo/target")
    tokenizer_golden("demo", text, [row["prompt"] for row in demo_prompts()[:6]])
    target_golden("demo_target", target, [1, 2, 3], short_demo_prompts(text, ("sqlite", "python", "speech"), 40))


def tiny_golden():
    text, target = Text(MODELS / "tiny/target"), Target(MODELS / "tiny/target")
    sharded = Target(MODELS / "tiny/target_sharded")
    assert all((sharded.tensors[n] == t).all() for n, t in target.tensors.items())
    tokenizer_golden("tiny", text, TINY_SAMPLES)
    target_golden("tiny_target", target, [-1, 1, 4], tiny_prompts(text))
    target_golden("tiny_llama", Target(MODELS / "tiny/llama"), [-1, 0, 1], tiny_prompts(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("all", "demo", "tiny"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    if args.all or args.tiny:
        tiny_golden()
    if args.all or args.demo:
        demo_golden()


if __name__ == "__main__":
    main()
