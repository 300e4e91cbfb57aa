"""Trains the DSpark drafter on the target's own samples. Resumes from work/dspark/checkpoint.pt.

`--start-from DIR` begins with the weights of an earlier drafter directory instead of a copy of the target's layer.
"""
import json
import os
import pathlib
import time

import numpy as np
import torch

import data
import dspark
import optim
import parallel
import sample
import schedule
import tensorfile
import tokenizer as tok

HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE / "work/dspark"
MINUTES = 40
ROWS, PIECE_ROWS, ANCHORS = 4, 1, 72  # sequences of a step and of a piece of it, and blocks of each sequence
TEXT_SHARE = 1 / 6  # of the sequences come from the corpus instead of the samples
MUON_LR, ADAM_LR = 0.008, 0.002
CHECKPOINT_SECONDS = 300
EVAL_PREFIX, EVAL_TOKENS, EVAL_ROWS = 48, 64, 6  # rows per kind
SEED = 3


def acceptance(model, target, texts):
    """Mean length of a greedy round on texts [rows, EVAL_PREFIX + EVAL_TOKENS + block + 1] that the target wrote greedily."""
    size = model.config["block_size"]
    anchors = torch.arange(EVAL_PREFIX, EVAL_PREFIX + EVAL_TOKENS).expand(len(texts), -1)
    drafts, _ = dspark.greedy_drafts(model, target, dspark.run_target(target, texts, anchors, model.config["target_layer_ids"]))
    truth = torch.stack([texts[:, EVAL_PREFIX + 1 + i:][:, :EVAL_TOKENS] for i in range(size)], -1)
    accepted = (drafts == truth).long().cumprod(-1).sum(-1)
    rounds = []
    for row in accepted.tolist():
        at = 0
        while at < EVAL_TOKENS:
            rounds.append(row[at])
            at += row[at] + 1
    return 1 + sum(rounds) / len(rounds)


class Trainee(torch.nn.Module):
    """The drafter with its frozen target, as the worker processes need them."""

    def __init__(self, drafter, target):
        super().__init__()
        self.drafter, self.target = drafter, target


def compute(trainee, tokens, anchors):
    batch = dspark.run_target(trainee.target, tokens, anchors, trainee.drafter.config["target_layer_ids"])
    value, figures = dspark.loss(trainee.drafter, trainee.target, batch)
    return value, list(figures.values())


def load_samples():
    files = sorted((HERE / "work").glob("samples.*.npz"))
    return torch.from_numpy(np.concatenate([np.load(f)["ids"] for f in files]).astype(np.int64))


class Run:
    def __init__(self, args):
        torch.set_num_threads(args.threads)
        torch.manual_seed(SEED)
        self.target = sample.load_target(args.target)
        self.model = dspark.DSpark(dspark.config_for(self.target.config))
        if args.start_from:
            dspark.load_checkpoint(self.model, tensorfile.load(pathlib.Path(args.start_from) / "model.safetensors"))
        else:
            self.model.start_from(self.target)
        parameters = dspark.names(self.model)
        matrix = lambda name: name == "fc.weight" or "_proj" in name
        self.optimizer = optim.Pair([p for n, p in parameters.items() if matrix(n)],
                                    [p for n, p in parameters.items() if not matrix(n)], MUON_LR, ADAM_LR)
        self.samples = load_samples()
        self.texts = data.Windows("train", SEED)
        self.eval_texts = self.write_eval_texts()
        self.step, spent = 0, 0.0
        if (WORK / "checkpoint.pt").exists() and not args.fresh:
            spent = self.restore(torch.load(WORK / "checkpoint.pt"))
        self.workers = parallel.Workers(compute, Trainee(self.model, self.target), args.threads)
        self.clock = schedule.Clock(args, spent, MINUTES)

    def write_eval_texts(self):
        """By kind: beginnings of held-out documents, continued greedily by the target."""
        prompts = []
        for kind in tok.KINDS:
            docs = [d for d in data.documents(kind, "heldout") if len(d) >= EVAL_PREFIX]
            prompts += [docs[i % len(docs)][:EVAL_PREFIX] for i in range(EVAL_ROWS)]
        prompts = torch.from_numpy(np.stack(prompts).astype(np.int64))
        length = EVAL_PREFIX + EVAL_TOKENS + self.model.config["block_size"] + 1
        texts = sample.generate(self.target, prompts, length, torch.zeros(len(prompts)))
        return dict(zip(tok.KINDS, texts.split(EVAL_ROWS)))

    def restore(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.restore(state["optimizer"])
        self.texts.restore(state["texts"])
        torch.set_rng_state(state["rng"])
        self.step = state["step"]
        return state["elapsed"]

    def batch(self):
        texts = sum(torch.rand(ROWS) < TEXT_SHARE).item()
        rows = self.samples[torch.randint(len(self.samples), (ROWS - texts,))]
        if texts:
            rows = torch.cat([rows, self.texts.batch(texts * sample.LENGTH, sample.LENGTH)[:, :-1]])
        last = rows.shape[1] - 1 - self.model.config["block_size"]
        return rows, torch.randint(1, last + 1, (ROWS, ANCHORS))

    def checkpoint(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state(), "texts": self.texts.state(),
                 "rng": torch.get_rng_state(), "step": self.step, "elapsed": self.clock.elapsed()}
        torch.save(state, WORK / "checkpoint.part")
        os.replace(WORK / "checkpoint.part", WORK / "checkpoint.pt")
        figures = {kind: round(acceptance(self.model, self.target, texts), 3) for kind, texts in self.eval_texts.items()}
        self.export(figures)
        self.log(f"checkpoint at step {self.step}, mean greedy acceptance length {figures}")

    def export(self, figures):
        folder = WORK / "export"
        folder.mkdir(exist_ok=True)
        tensorfile.save(folder / "model.safetensors", dspark.checkpoint_tensors(self.model))
        info = {"steps": self.step, "blocks": self.step * ROWS * ANCHORS, "samples": len(self.samples) * sample.LENGTH,
                "minutes": round(self.clock.elapsed() / 60, 1), "acceptance_length": figures}
        for name, value in (("config.json", self.model.config), ("training.json", info)):
            (folder / f"{name}.part").write_text(json.dumps(value, indent=2) + "\n")
            os.replace(folder / f"{name}.part", folder / name)

    def log(self, text):
        line = f"{time.strftime('%H:%M:%S')} {text}"
        print(line, flush=True)
        with open(WORK / "log.txt", "a") as file:
            file.write(line + "\n")

    def train(self):
        saved = time.time()
        while self.clock.remaining() > 0:
            begin, multiplier = time.time(), self.clock.multiplier(self.step)
            tokens, anchors = self.batch()
            figures = self.workers.gradient(list(zip(tokens.split(PIECE_ROWS), anchors.split(PIECE_ROWS))))
            self.optimizer.step(multiplier)
            self.step += 1
            if self.step % 10 == 0:
                rate = ROWS * ANCHORS / (time.time() - begin)
                self.log("step {} draft {:.4f} confidence {:.4f} expected length {:.3f} ".format(self.step, *figures) + f"{rate:.0f} blocks/s lr x{multiplier:.3f}")
            if time.time() - saved > CHECKPOINT_SECONDS:
                self.checkpoint()
                saved = time.time()
        self.checkpoint()
        self.workers.close()


if __name__ == "__main__":
    parser = schedule.arguments(__doc__)
    parser.add_argument("--target", default=HERE / "work/target/export")
    parser.add_argument("--start-from")
    WORK.mkdir(parents=True, exist_ok=True)
    Run(parser.parse_args()).train()
