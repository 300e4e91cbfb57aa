"""Reference outputs for the tests: a plain float64 forward pass of the Qwen3 and Llama targets and the DSpark drafter.

Shares no code with training; it reads the model directories alone. `golden.py --all` rewrites tests/golden.
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
ACCEPTANCE_PROMPTS, ACCEPTANCE_TOKENS = 20, 64
TOP = 16  # logits kept of a row that is not kept whole
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
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
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
        logits = self.norm(x, "norm") @ self.head.T
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


class Drafter(Network):
    """DSpark with a vanilla Markov head."""

    def __init__(self, folder, target):
        super().__init__(folder, "", target.embedding.dtype)
        self.target, self.size, self.taps = target, self.config["block_size"], self.config["target_layer_ids"]
        self.embedding = self.tensors.get("embed_tokens.weight", target.embedding)
        self.head = self.tensors.get("lm_head.weight", target.head)

    def draft(self, features, anchor):
        """`features` [n, m*h] of positions 0 .. n-1, `anchor` the token of position n."""
        n = len(features)
        context = self.norm(features @ self.weight("fc").T, "hidden_norm")
        positions = n + np.arange(self.size)
        x = self.embedding[[anchor] + [self.config["mask_token_id"]] * (self.size - 1)]
        visible = np.ones((self.size, n + self.size), bool)
        for i in range(self.config["num_hidden_layers"]):
            u = self.norm(x, f"layers.{i}.input_layernorm")
            q = self.heads(u, i, "q", positions)
            k, v = (np.concatenate([self.heads(context, i, w, np.arange(n)), self.heads(u, i, w, positions)]) for w in "kv")
            x = self.finish_layer(x, i, attend(q, k, v, visible))
        y = self.norm(x, "norm")
        base = y @ self.head.T
        w1, w2 = self.weight("markov_head.markov_w1"), self.weight("markov_head.markov_w2")
        tokens, logits, confidence, previous = [], [], [], anchor
        for i in range(self.size):
            confidence.append(np.concatenate([y[i], w1[previous]]) @ self.weight("confidence_head.proj")[0]
                              + self.tensors["confidence_head.proj.bias"][0])
            logits.append(base[i] + w2 @ w1[previous])
            previous = int(logits[-1].argmax())
            tokens.append(previous)
        return {"hidden": y, "base": base, "logits": np.array(logits), "tokens": tokens, "confidence": np.array(confidence)}


def speculate_greedily(target, drafter, ids, tokens):
    """Accepted drafts of each round until `tokens` tokens are out. The first token comes with the prompt, not from a round.

    The last round counts in full although it may run past the end, so a few tokens more than asked are computed.
    """
    text, features = target.continue_greedily(ids, tokens + drafter.size + 1, drafter.taps)
    at, rounds, confidence = 0, [], []
    while at + 1 < tokens:
        draft = drafter.draft(features[:len(ids) + at], text[at])
        count = 0
        while count < drafter.size and draft["tokens"][count] == text[at + 1 + count]:
            count += 1
        rounds.append(count)
        confidence.append(draft["confidence"])
        at += count + 1
    return text[:tokens], rounds, confidence


def acceptance_figures(rounds, size):
    counts = np.array(rounds)
    reached = [int((counts >= k).sum()) for k in range(size + 1)]
    return {"rounds": len(counts), "mean_length": round(1 + float(counts.mean()), 4),
            "unconditional": [round(reached[k] / len(counts), 4) for k in range(1, size + 1)],
            "conditional": [round(reached[k] / max(1, reached[k - 1]), 4) for k in range(1, size + 1)]}


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


def drafter_golden(name, target, drafter, prompts):
    """Sequences are a prompt and its greedy continuation; anchors lie in both. Whole logits only for the first anchors."""
    c = drafter.config
    arrays, index = {}, {"block_size": drafter.size, "mask_token_id": c["mask_token_id"], "target_layer_ids": drafter.taps, "blocks": []}
    for p, (ids, about) in enumerate(prompts):
        greedy, features = target.continue_greedily(ids, GREEDY_TOKENS, drafter.taps)
        sequence = ids + greedy
        arrays[f"prompt{p}.sequence"] = i32(sequence)
        anchors = [1, len(ids) // 2, len(ids), len(ids) + 9]
        arrays[f"prompt{p}.features"] = f32(features[:anchors[-1]])
        for a, n in enumerate(anchors):
            draft, key = drafter.draft(features[:n], sequence[n]), f"prompt{p}.anchor{a}"
            top = np.argsort(-draft["logits"], -1, kind="stable")[:, :TOP]
            arrays |= {f"{key}.hidden": f32(draft["hidden"]), f"{key}.tokens": i32(draft["tokens"]),
                       f"{key}.confidence": f32(draft["confidence"]), f"{key}.top_ids": i32(top),
                       f"{key}.top_logits": f32(np.take_along_axis(draft["logits"], top, -1)),
                       f"{key}.top_base": f32(np.take_along_axis(draft["base"], top, -1))}
            if p == 0 and a == 2:
                arrays |= {f"{key}.base": f32(draft["base"]), f"{key}.logits": f32(draft["logits"])}
            index["blocks"].append({"key": key, "prompt": p, "anchor": sequence[n], "context_length": n, "tokens": draft["tokens"],
                                    "confidence": [round(float(x), 6) for x in draft["confidence"]]})
    write_safetensors(OUT / f"{name}.safetensors", arrays)
    write_json(OUT / f"{name}.json", index)


def load_pair(name, dtype=np.float64):
    target = Target(MODELS / name / "target", dtype)
    return Text(MODELS / name / "target"), target, Drafter(MODELS / name / "dspark", target)


def demo_prompts():
    return [json.loads(line) for line in (MODELS / "demo/prompts.jsonl").read_text("utf-8").splitlines()]


def tokenizer_golden(name, text, extra):
    rows = [{"text": sample, "ids": text.encode(sample)} for sample in TOKENIZER_SAMPLES + extra]
    assert all(text.decode(row["ids"]) == unicodedata.normalize("NFC", row["text"]) for row in rows)
    write_json(OUT / f"{name}_tokenizer.json", rows)


def demo_golden():
    text, target, drafter = load_pair("demo")
    rows = demo_prompts()
    tokenizer_golden("demo", text, [row["prompt"] for row in rows[:6]])
    encoded = [(text.encode(row["prompt"]), {"id": row["id"], "kind": row["kind"]}) for row in rows]
    short = [next((ids[:40], about) for ids, about in encoded if about["kind"] == kind) for kind in ("sqlite", "python", "speech")]
    target_golden("demo_target", target, drafter.taps, short)
    drafter_golden("demo_dspark", target, drafter, short)
    acceptance_golden(target, drafter, encoded[:ACCEPTANCE_PROMPTS])


def acceptance_golden(target, drafter, encoded):
    every, each = [], []
    for ids, about in encoded:
        out, rounds, _ = speculate_greedily(target, drafter, ids, ACCEPTANCE_TOKENS)
        every += rounds
        each.append({**about, "input_ids": ids, "output": out, "accepted": rounds})
    write_json(OUT / "demo_acceptance.json", {
        "about": "Greedy chains, all drafts verified, end marks ignored. The first token of an output belongs to the prompt "
                 "pass. Rounds are counted until the output has `tokens` tokens; the last one counts in full. "
                 "mean_length is 1 + accepted / rounds.",
        "tokens": ACCEPTANCE_TOKENS, "block_size": drafter.size, **acceptance_figures(every, drafter.size), "prompts": each})


def tiny_golden():
    text, target, drafter = load_pair("tiny")
    sharded = Target(MODELS / "tiny/target_sharded")
    assert all((sharded.tensors[n] == t).all() for n, t in target.tensors.items())
    samples = ["The database file is locked.", "Fellow citizens of the Senate", "import sys\nprint(sys.argv)"]
    tokenizer_golden("tiny", text, samples)
    prompts = [(text.encode(sample), {"text": sample}) for sample in samples]
    target_golden("tiny_target", target, drafter.taps, prompts)
    drafter_golden("tiny_dspark", target, drafter, prompts)
    target_golden("tiny_llama", Target(MODELS / "tiny/llama"), [-1, 0, 1], prompts)


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
