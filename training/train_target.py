"""Trains the target. Resumes from work/target/checkpoint.pt; each checkpoint also leaves a rounded model directory.

`--start-from DIR` begins with the weights of an earlier model directory (models/demo/target), so that a pair can be improved
where its checkpoint is gone. The optimizer starts anew, and the count of tokens leaves out what that model saw before.

The log line of a step: tokens so far, training loss, tokens per second, learning-rate multiplier.
"""
import json
import os
import pathlib
import shutil
import time

import torch

import data
import optim
import parallel
import qwen3
import schedule
import tensorfile
import tokenizer as tok

HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE / "work/target"
MINUTES = 75
BATCH_TOKENS = 4096
PIECE_TOKENS = 1024
LENGTH, LONG_LENGTH, LONG_EVERY = 512, 2048, 8  # long rows come only while the rate decays
MUON_LR, ADAM_LR = 0.012, 0.002
CHECKPOINT_SECONDS = 300
EVAL_TOKENS = 8192
SEED = 1


def heldout_losses(model, tokens=EVAL_TOKENS):
    losses = {}
    for kind in tok.KINDS:
        windows = data.Windows("heldout", kinds=[kind])
        with torch.no_grad():
            losses[kind] = round(model.loss(windows.batch(min(tokens, len(windows.starts) * LENGTH), LENGTH)).item(), 4)
    return losses


def export(model, folder, info):
    """Writes a complete model directory. Every file appears by a rename."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensorfile.save(folder / "model.safetensors", qwen3.checkpoint_tensors(model))
    for name, value in (("config.json", model.config), ("training.json", info)):
        (folder / f"{name}.part").write_text(json.dumps(value, indent=2) + "\n")
        os.replace(folder / f"{name}.part", folder / name)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(tok.OUT / name, folder / f"{name}.part")
        os.replace(folder / f"{name}.part", folder / name)


def compute(model, ids):
    value = model.loss(ids)
    return value, [value.item()]


class Run:
    def __init__(self, args):
        torch.set_num_threads(args.threads)
        torch.manual_seed(SEED)
        self.model = qwen3.Qwen3(qwen3.CONFIG)
        if args.start_from:
            qwen3.load_checkpoint(self.model, tensorfile.load(pathlib.Path(args.start_from) / "model.safetensors"))
        named = [p for layer in self.model.layers for p in layer.weights.values()]
        self.optimizer = optim.Pair([p for p in named if p.ndim == 2],
                                    [p for p in named if p.ndim == 1] + [self.model.embedding, self.model.norm],
                                    MUON_LR, ADAM_LR)
        self.windows = data.Windows("train", SEED)
        self.step = self.tokens = 0
        spent = 0.0
        if (WORK / "checkpoint.pt").exists() and not args.fresh:
            spent = self.restore(torch.load(WORK / "checkpoint.pt"))
        self.workers = parallel.Workers(compute, self.model, args.threads)
        self.clock = schedule.Clock(args, spent, MINUTES)

    def restore(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.restore(state["optimizer"])
        self.windows.restore(state["windows"])
        torch.set_rng_state(state["rng"])
        self.step, self.tokens = state["step"], state["tokens"]
        return state["elapsed"]

    def checkpoint(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state(), "windows": self.windows.state(),
                 "rng": torch.get_rng_state(), "step": self.step, "tokens": self.tokens, "elapsed": self.clock.elapsed()}
        torch.save(state, WORK / "checkpoint.part")
        os.replace(WORK / "checkpoint.part", WORK / "checkpoint.pt")
        # What is measured is the rounded model, as everyone else will see it.
        rounded = qwen3.load_checkpoint(qwen3.Qwen3(self.model.config), qwen3.checkpoint_tensors(self.model))
        losses = heldout_losses(rounded)
        export(self.model, WORK / "export", {"steps": self.step, "tokens": self.tokens, "epoch": self.windows.epoch,
                                             "minutes": round(self.clock.elapsed() / 60, 1), "heldout_loss": losses})
        self.log(f"checkpoint at step {self.step}, held-out loss {losses}")

    def log(self, text):
        line = f"{time.strftime('%H:%M:%S')} {text}"
        print(line, flush=True)
        with open(WORK / "log.txt", "a") as file:
            file.write(line + "\n")

    def train(self):
        saved = time.time()
        while self.clock.remaining() > 0:
            begin, multiplier = time.time(), self.clock.multiplier(self.step)
            long = multiplier < 1 and self.step > schedule.WARMUP_STEPS and self.step % LONG_EVERY == 0
            length = LONG_LENGTH if long else LENGTH
            size = max(PIECE_TOKENS, length)
            pieces = [(self.windows.batch(size, length),) for _ in range(BATCH_TOKENS // size)]
            (loss,) = self.workers.gradient(pieces)
            self.optimizer.step(multiplier)
            self.step += 1
            self.tokens += BATCH_TOKENS
            if self.step % 10 == 0:
                rate = BATCH_TOKENS / (time.time() - begin)
                self.log(f"step {self.step} tokens {self.tokens} loss {loss:.4f} {rate:.0f} tok/s lr x{multiplier:.3f}")
            if time.time() - saved > CHECKPOINT_SECONDS:
                self.checkpoint()
                saved = time.time()
        self.checkpoint()
        self.workers.close()


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    parser = schedule.arguments(__doc__)
    parser.add_argument("--start-from")
    Run(parser.parse_args()).train()
