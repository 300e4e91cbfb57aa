"""Trains the other drafters of the demo target, all on the same batches: `--only eagle3,medusa,dflash`.

A batch is made as for DSpark: sequences of the target's own samples and of the corpus, with anchors at random. The target
runs once for all. Training ends after `--blocks` blocks, and the learning rate follows their count, not the clock.
Resumes from work/drafters/<names>/checkpoint.pt; `--blocks` may be lowered between runs while the rate is still constant.
"""
import argparse
import json
import os
import pathlib
import time
import types

import numpy as np
import torch

import data
import dflash
import dspark
import eagle3
import medusa
import optim
import sample
import schedule
import tensorfile
import tokenizer as tok
import train_dspark


def dspark_module(head):
    """DSpark with one of its heads, to compare them on equal batches."""
    return types.SimpleNamespace(config_for=lambda target: dspark.config_for(target, head), names=dspark.names,
                                 loss=lambda *args: dspark.loss(*args)[0], greedy_drafts=lambda *args: dspark.greedy_drafts(*args)[0])


HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE / "work/drafters"
KINDS = {"eagle3": (eagle3, eagle3.Eagle3), "medusa": (medusa, medusa.Medusa), "dflash": (dflash, dflash.DFlash),
         **{f"dspark_{head}": (dspark_module(head), dspark.DSpark) for head in ("vanilla", "gated", "rnn")}}
ROWS, ANCHORS, LENGTH = train_dspark.ROWS, train_dspark.ANCHORS, sample.LENGTH
BLOCKS = 297504
AHEAD = 7  # tokens that follow every anchor
TAPS = dspark.TAPS
ADAM_LR = {"medusa": 0.0005}  # its output matrices are large and begin well
CHECKPOINT_SECONDS = 600
EVAL_PREFIX, EVAL_TOKENS, EVAL_ROWS = 48, 64, 3
SEED = 3


class Target:
    """The frozen target. It remembers its states and features of the sample rows (0.8 MB each)."""

    def __init__(self, folder, samples):
        self.model, self.samples, self.known = sample.load_target(folder), samples, {}
        self.config, self.embedding = self.model.config, self.model.embedding

    def run(self, tokens):
        batch = dspark.run_target(self.model, tokens, None, TAPS)
        return batch.states, batch.features

    def batch(self, indices, texts, anchors):
        """The samples `indices` and then the rows `texts`."""
        for i in indices:
            if i not in self.known:
                self.known[i] = tuple(t[0].clone() for t in self.run(self.samples[i][None]))
        parts = [(self.samples[i][None], *(t[None] for t in self.known[i])) for i in indices]
        if len(texts):
            parts.append((texts, *self.run(texts)))
        tokens, states, features = (torch.cat(column) for column in zip(*parts))
        return types.SimpleNamespace(tokens=tokens, states=states, features=features, anchors=anchors)


class Drafter:
    """One drafter with its own optimizer."""

    def __init__(self, kind, target):
        self.kind, (self.module, build) = kind, KINDS[kind]
        self.model = build(self.module.config_for(target.config))
        self.model.start_from(target.model)
        parameters = self.module.names(self.model)
        matrix = lambda name: name.endswith(("fc.weight", "_proj.weight", ".linear.weight"))
        self.optimizer = optim.Pair([p for n, p in parameters.items() if matrix(n)],
                                    [p for n, p in parameters.items() if not matrix(n)], train_dspark.MUON_LR,
                                    ADAM_LR.get(kind, train_dspark.ADAM_LR))
        self.losses, self.seconds = [], 0.0

    def step(self, target, batch, multiplier):
        begin = time.time()
        value = self.module.loss(self.model, target, batch)
        value.backward()
        self.optimizer.step(multiplier)
        self.losses.append(value.item())
        self.seconds += time.time() - begin

    def figures(self):
        """Mean loss and seconds of a step since the last call."""
        text = f"{self.kind} {np.mean(self.losses):.4f} ({self.seconds / len(self.losses):.2f} s)"
        self.losses, self.seconds = [], 0.0
        return text

    def acceptance(self, target, eval_texts):
        """By kind of text: mean length of a greedy round on texts that the target wrote greedily."""
        out = {}
        for kind, texts in eval_texts.items():
            anchors = torch.arange(EVAL_PREFIX, EVAL_PREFIX + EVAL_TOKENS).expand(len(texts), -1)
            drafts = self.module.greedy_drafts(self.model, target, dspark.run_target(target.model, texts, anchors, TAPS))
            truth = torch.stack([texts[:, EVAL_PREFIX + 1 + i:][:, :EVAL_TOKENS] for i in range(drafts.shape[-1])], -1)
            out[kind] = round(mean_length((drafts == truth).long().cumprod(-1).sum(-1).tolist()), 3)
        return out

    def export(self, folder, info):
        """Rounded to bfloat16; the embedding and the target's head are left out."""
        folder.mkdir(parents=True, exist_ok=True)
        tensorfile.save(folder / "model.safetensors", {n: p.detach().bfloat16() for n, p in self.module.names(self.model).items()})
        for name, value in (("config.json", self.model.config), ("training.json", info)):
            (folder / f"{name}.part").write_text(json.dumps(value, indent=2) + "\n")
            os.replace(folder / f"{name}.part", folder / name)


def mean_length(accepted):
    """`accepted` drafts at every place of every row; a round goes on where the one before it ended."""
    rounds = []
    for row in accepted:
        at = 0
        while at < len(row):
            rounds.append(row[at])
            at += row[at] + 1
    return 1 + sum(rounds) / len(rounds)


class Run:
    def __init__(self, args):
        torch.set_num_threads(args.threads)
        torch.manual_seed(SEED)
        self.folder = WORK / "+".join(args.only)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.samples = train_dspark.load_samples()
        self.target = Target(args.target, self.samples)
        self.texts = data.Windows("train", SEED)
        self.drafters = [Drafter(kind, self.target) for kind in args.only]
        self.eval_texts = self.write_eval_texts()
        self.steps = args.blocks // (ROWS * ANCHORS)
        self.step, self.spent = 0, 0.0
        if (self.folder / "checkpoint.pt").exists() and not args.fresh:
            self.restore(torch.load(self.folder / "checkpoint.pt"))
        self.begin = time.time()

    def write_eval_texts(self):
        """By kind: beginnings of held-out documents, continued greedily by the target."""
        prompts = []
        for kind in tok.KINDS:
            docs = [d for d in data.documents(kind, "heldout") if len(d) >= EVAL_PREFIX]
            prompts += [docs[i % len(docs)][:EVAL_PREFIX] for i in range(EVAL_ROWS)]
        prompts = torch.from_numpy(np.stack(prompts).astype(np.int64))
        texts = sample.generate(self.target.model, prompts, EVAL_PREFIX + EVAL_TOKENS + AHEAD + 1, torch.zeros(len(prompts)))
        return dict(zip(tok.KINDS, texts.split(EVAL_ROWS)))

    def restore(self, state):
        self.step, self.spent = state["step"], state["elapsed"]
        self.texts.restore(state["texts"])
        for drafter in self.drafters:
            model, optimizer = state[drafter.kind]
            drafter.model.load_state_dict(model)
            drafter.optimizer.restore(optimizer)

    def batch(self):
        """Drawn from the step's number alone, but for the place in the corpus."""
        rng = torch.Generator().manual_seed(SEED * 1000003 + self.step)
        texts = sum(torch.rand(ROWS, generator=rng) < train_dspark.TEXT_SHARE).item()
        indices = torch.randint(len(self.samples), (ROWS - texts,), generator=rng).tolist()
        rows = self.texts.batch(texts * LENGTH, LENGTH)[:, :-1] if texts else []
        return self.target.batch(indices, rows, torch.randint(1, LENGTH - AHEAD, (ROWS, ANCHORS), generator=rng))

    def multiplier(self):
        decay = (self.steps - self.step) / (schedule.DECAY_SHARE * self.steps)
        return min(1.0, decay, (self.step + 1) / schedule.WARMUP_STEPS)

    def elapsed(self):
        return self.spent + time.time() - self.begin

    def checkpoint(self):
        state = {"step": self.step, "elapsed": self.elapsed(), "texts": self.texts.state(),
                 **{d.kind: (d.model.state_dict(), d.optimizer.state()) for d in self.drafters}}
        torch.save(state, self.folder / "checkpoint.part")
        os.replace(self.folder / "checkpoint.part", self.folder / "checkpoint.pt")
        for drafter in self.drafters:
            figures = drafter.acceptance(self.target, self.eval_texts)
            drafter.export(WORK / drafter.kind / "export", {
                "steps": self.step, "blocks": self.step * ROWS * ANCHORS, "samples": len(self.samples) * LENGTH,
                "minutes": round(self.elapsed() / 60, 1), "trained_together": len(self.drafters), "acceptance_length": figures})
            self.log(f"step {self.step}, mean greedy acceptance length of {drafter.kind} {figures}")

    def log(self, text):
        line = f"{time.strftime('%H:%M:%S')} {text}"
        print(line, flush=True)
        with open(self.folder / "log.txt", "a") as file:
            file.write(line + "\n")

    def train(self):
        saved = time.time()
        while self.step < self.steps:
            batch, multiplier = self.batch(), self.multiplier()
            for drafter in self.drafters:
                drafter.step(self.target, batch, multiplier)
            self.step += 1
            if self.step % 10 == 0:
                self.log(f"step {self.step} of {self.steps} " + " ".join(d.figures() for d in self.drafters) + f" lr x{multiplier:.3f}")
            if time.time() - saved > CHECKPOINT_SECONDS:
                self.checkpoint()
                saved = time.time()
        self.checkpoint()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["eagle3", "medusa", "dflash"])
    parser.add_argument("--target", default=HERE / "work/target/export")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="ignore an existing checkpoint")
    Run(parser.parse_args()).train()


if __name__ == "__main__":
    main()
