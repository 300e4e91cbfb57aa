"""Lets the target continue prefixes of the training text, many at a time, with a key/value cache.

Writes work/samples.<seed>.npz: rows of LENGTH tokens, prefix included. Rows run on past end marks, as the documents of the
training stream do, so all rows have one length.
"""
import argparse
import json
import pathlib
import time

import numpy as np
import torch

import data
import qwen3
import tensorfile
import tokenizer as tok

HERE = pathlib.Path(__file__).resolve().parent
LENGTH = 384
ROWS = 96  # at a time
PREFIX = (16, 128)
TEMPERATURES = [0.0, 0.0, 0.7, 1.0]  # each as likely


def load_target(folder):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    return qwen3.load_checkpoint(qwen3.Qwen3(config), tensorfile.load(folder / "model.safetensors")).freeze()


class Decoder:
    """A preallocated cache for `rows` sequences that advance together. Keys and values are [rows, KV, positions, D]."""

    def __init__(self, model, rows, length):
        c = self.config = model.config
        self.model, self.position = model, 0
        self.embedding, self.head = model.embedding, model.embedding.bfloat16()
        self.rope = qwen3.rope_tables(c, torch.arange(length))
        shape = (rows, c["num_key_value_heads"], length, c["head_dim"])
        self.keys = [torch.zeros(shape, dtype=torch.bfloat16) for _ in model.layers]
        self.values = [torch.zeros(shape, dtype=torch.bfloat16) for _ in model.layers]

    @torch.no_grad()
    def advance(self, ids):
        """Appends ids [rows, n] and returns the logits of the last position, [rows, vocabulary]."""
        begin, end = self.position, self.position + ids.shape[1]
        rope = tuple(t[begin:end] for t in self.rope)
        mask = torch.full((end - begin, end), -1e9).triu(begin + 1).bfloat16()
        x = self.embedding[ids]
        for i, layer in enumerate(self.model.layers):
            def attention(q, k, v):
                self.keys[i][:, :, begin:end], self.values[i][:, :, begin:end] = k.transpose(1, 2), v.transpose(1, 2)
                return qwen3.grouped_attention(q, *(t[:, :, :end].transpose(1, 2) for t in (self.keys[i], self.values[i])), mask)
            x = layer(x, rope, attention)
        self.position = end
        y = qwen3.rms_norm(x[:, -1], self.model.norm, self.config["rms_norm_eps"])
        return (y @ self.head.t()).float()


def choose(logits, temperatures):
    """Gumbel trick; temperature 0 takes the largest."""
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + temperatures[:, None] * noise).argmax(-1)


def generate(model, prefixes, length, temperatures):
    decoder = Decoder(model, len(prefixes), length)
    out = [prefixes, choose(decoder.advance(prefixes), temperatures)[:, None]]
    while sum(x.shape[1] for x in out) < length:
        out.append(choose(decoder.advance(out[-1]), temperatures)[:, None])
    return torch.cat(out, 1)


def prefixes(docs, rng, rows, length):
    """Starts of chats, and places anywhere in the other kinds; a kind's share follows its size, but at least a twelfth."""
    kinds = list(docs)
    share = np.array([max(1 / 12, len(docs[k][0]) / sum(len(s) for s, _ in docs.values())) for k in kinds])
    out = []
    for kind in rng.choice(kinds, rows, p=share / share.sum()):
        stream, starts = docs[kind]
        if kind == "chat":
            begin = rng.choice(starts[starts < len(stream) - length])
        else:
            begin = rng.integers(len(stream) - length)
        out.append(stream[begin:begin + length])
    return torch.from_numpy(np.stack(out).astype(np.int64))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default=HERE / "work/target/export")
    parser.add_argument("--seed", type=int, default=2, help="start one process per core, each with its own")
    parser.add_argument("--tokens", type=float, default=1e6)
    parser.add_argument("--minutes", type=float, default=60, help="stop early after this time")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    model, docs = load_target(args.target), {}
    for kind in tok.KINDS:
        parts = data.documents(kind, "train")
        docs[kind] = np.concatenate(parts), np.cumsum([0] + [len(p) for p in parts[:-1]])
    rows, begin = [], time.time()
    while len(rows) * ROWS * LENGTH < args.tokens and time.time() - begin < 60 * args.minutes:
        ids = prefixes(docs, rng, ROWS, int(rng.integers(PREFIX[0], PREFIX[1] + 1)))
        temperatures = torch.tensor(rng.choice(TEMPERATURES, ROWS), dtype=torch.float32)
        rows.append(generate(model, ids, LENGTH, temperatures).numpy().astype(np.uint16))
        total = len(rows) * ROWS * LENGTH
        print(f"{total} tokens, {total / (time.time() - begin):.0f} tok/s", flush=True)
        np.savez(HERE / f"work/samples.{args.seed}.npz", ids=np.concatenate(rows))


if __name__ == "__main__":
    main()
