"""Token streams: encodes the corpus once, then serves shuffled windows of it in a resumable order."""
import pathlib

import numpy as np
import torch

import tokenizer as tok

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = HERE / "work/tokens"


def encode_row(tokenizer, row):
    """One document with its end mark; a chat keeps the special tokens of its template."""
    if "messages" in row:
        ids = tokenizer.encode_with_specials(tokenizer.chat(row["messages"]))
    else:
        ids = tokenizer.encode(row["text"])
    return ids + [tokenizer.special["<|endoftext|>"]]


def build():
    TOKENS.mkdir(parents=True, exist_ok=True)
    tokenizer = tok.Tokenizer(tok.OUT)
    for kind in tok.KINDS:
        for part in ("train", "heldout"):
            docs = [encode_row(tokenizer, row) for row in tok.rows(kind, part)]
            ends = np.cumsum([len(d) for d in docs])
            np.savez(TOKENS / f"{kind}.{part}.npz", ids=np.concatenate(docs).astype(np.uint16), ends=ends)
            print(f"{kind:9} {part:8} {ends[-1]:9} tokens")


def documents(kind, part):
    data = np.load(TOKENS / f"{kind}.{part}.npz")
    return np.split(data["ids"], data["ends"][:-1])


class Windows:
    """Endless batches of `length + 1` tokens. Each epoch shuffles the documents, joins them, and shuffles the cuts.

    The order depends on the seed and the epoch alone, so (epoch, position) is all there is to save.
    """

    def __init__(self, part, seed=0, kinds=tok.KINDS):
        self.docs = [d for kind in kinds for d in documents(kind, part)]
        self.seed, self.epoch, self.position = seed, 0, 0
        self.shuffle()

    def shuffle(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        self.stream = np.concatenate([self.docs[i] for i in rng.permutation(len(self.docs))])
        self.starts = rng.permutation(np.arange(int(rng.integers(512)), len(self.stream) - 2049, 512))

    def state(self):
        return {"epoch": self.epoch, "position": self.position}

    def restore(self, state):
        self.epoch, self.position = state["epoch"], state["position"]
        self.shuffle()

    def batch(self, tokens, length):
        """`tokens` tokens in rows of `length`. Rows longer than 512 skip ahead, so that one epoch sees all once."""
        rows = []
        for _ in range(tokens // length):
            if self.position >= len(self.starts):
                self.epoch, self.position = self.epoch + 1, 0
                self.shuffle()
            start = self.starts[self.position]
            rows.append(self.stream[start:start + length + 1])
            self.position += 1
        return torch.from_numpy(np.stack(rows).astype(np.int64))


if __name__ == "__main__":
    build()
