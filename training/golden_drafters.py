"""Reference outputs for the tests of the drafters: plain float64 draft passes, written from the published layouts.

Shares no code with training; it reads the model directories alone. `golden_drafters.py --all` rewrites tests/golden/*_<drafter>.*
and the acceptance of the demo's DSpark drafter.
"""
import argparse
import functools
import json
import pathlib

import numpy as np

import golden
from golden import MODELS, OUT, Network, attend, f32, i32, rms_norm, silu

TOP = 16  # logits kept of a row that is not kept whole
ACCEPTANCE_PROMPTS, ACCEPTANCE_TOKENS = 20, 64
DEFAULT_STEPS = 4  # of an EAGLE-3 file that names no length


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- the drafters ----------------------------------------------------------------------------------------------------
# draft(features, tokens): features [n, m*h] of positions 0 .. n-1, tokens 0 .. n, of which the last is the anchor. Greedy.

class Drafter(Network):
    about = ""

    def __init__(self, folder, target):
        super().__init__(folder, "", target.embedding.dtype)
        self.target = target
        self.embedding = self.tensors.get("embed_tokens.weight", target.embedding)
        self.head = self.tensors.get("lm_head.weight", target.head)

    def ids(self, rows):
        """The target's ids of draft ids."""
        return rows

    def head_logits(self, y):
        return y @ self.head.T


class Block(Drafter):
    """DSpark and DFlash. Row 0 of the block is the anchor, the others are masks.

    In DeepSpec's layout every row predicts the token after its own; in the fill-in layout ("1 + gamma": z-lab's DFlash, some
    speculators exports) every row but the anchor's predicts its own.
    """

    def __init__(self, folder, target):
        super().__init__(folder, target)
        c = self.config
        if "speculators_model_type" in c:
            proposal = c["speculators_config"]["proposal_methods"][0]
            self.first = c["block_size"] - proposal["speculative_tokens"]
            self.taps = [j - 1 for j in c["aux_hidden_state_layer_ids"]]  # there 0 is the embedding
        elif "dflash_config" in c:
            self.first, self.taps = 1, c["dflash_config"]["target_layer_ids"]
            self.config = c | c["dflash_config"]
        else:
            self.first, self.taps = 0, c["target_layer_ids"]
        self.size = c["block_size"] - self.first
        self.kind = c.get("markov_head_type", "vanilla") if c.get("markov_rank", 0) else None
        self.index = {"block_size": c["block_size"], "mask_token_id": self.config["mask_token_id"], "target_layer_ids": self.taps}
        if self.first:
            self.index["about"] = "Row i of the block predicts its own position; the anchor's row predicts nothing and is left out here."

    def block(self, features, anchor):
        """Normed states of the rows that predict."""
        n, rows = len(features), self.config["block_size"]
        context = self.norm(features @ self.weight("fc").T, "hidden_norm")
        positions = n + np.arange(rows)
        x = self.embedding[[anchor] + [self.config["mask_token_id"]] * (rows - 1)]
        visible = np.ones((rows, n + rows), bool)
        for i in range(self.config["num_hidden_layers"]):
            u = self.norm(x, f"layers.{i}.input_layernorm")
            q = self.heads(u, i, "q", positions)
            k, v = (np.concatenate([self.heads(context, i, w, np.arange(n)), self.heads(u, i, w, positions)]) for w in "kv")
            x = self.finish_layer(x, i, attend(q, k, v, visible))
        return self.norm(x, "norm")[self.first:]

    def affine(self, name, x):
        return self.weight(f"markov_head.{name}") @ np.concatenate(x) + self.tensors[f"markov_head.{name}.bias"]

    def draft(self, features, tokens):
        y = self.block(features, tokens[-1])
        base = self.head_logits(y)
        if self.kind is None:
            return {"hidden": y, "logits": base, "tokens": [int(row.argmax()) for row in base]}
        w1, w2 = self.weight("markov_head.markov_w1"), self.weight("markov_head.markov_w2")
        drafts, logits, confidence, previous, state = [], [], [], tokens[-1], np.zeros(w1.shape[1])
        for row, u in zip(y, base):
            m = w1[previous]
            confidence.append(np.concatenate([row, m]) @ self.weight("confidence_head.proj")[0]
                              + self.tensors["confidence_head.proj.bias"][0])
            if self.kind == "gated":
                m = sigmoid(self.affine("gate_proj", [row, m])) * m
            elif self.kind == "rnn":
                gate, candidate, output = np.split(self.affine("joint_proj", [state, m, row]), 3)
                state = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(candidate)
                m = np.tanh(output)
            logits.append(u + w2 @ m)
            previous = int(logits[-1].argmax())
            drafts.append(previous)
        return {"hidden": y, "base": base, "logits": np.array(logits), "tokens": drafts, "confidence": np.array(confidence)}


class Eagle3(Drafter):
    """DeepSpec's files and SpecForge's. The states kept as "hidden" are the rows' outputs before the final norm."""

    def __init__(self, folder, target):
        super().__init__(folder, target)
        c = self.config
        for name in [n for n in self.tensors if n.startswith("midlayer.")]:
            self.tensors["layers.0." + name.removeprefix("midlayer.")] = self.tensors.pop(name)
        if "target_layer_ids" in c:
            self.taps = c["target_layer_ids"]
        else:
            self.taps = [j - 1 for j in c["eagle_config"]["eagle_aux_hidden_state_layer_ids"]]
        self.size = c.get("ttt_length", DEFAULT_STEPS)
        self.offsets = self.tensors.get("d2t")
        self.index = {"steps": self.size, "target_layer_ids": self.taps,
                      "about": "hidden: outputs of the rows, before the final norm. Pairs are (features of i, token of i + 1) at position i."}
        if self.offsets is not None:
            self.index["draft_vocab_size"] = len(self.offsets)
            self.index["about"] += " Whole logits are in the draft vocabulary; tokens and top_ids are the target's."

    def ids(self, rows):
        return rows if self.offsets is None else rows + self.offsets[rows].astype(int)

    def row(self, g, tokens, positions, past):
        """One pass of rows (g, token) at `positions`, which follow the rows `past` holds (a list of keys and values)."""
        name = "layers.0."
        z = np.concatenate([self.norm(self.embedding[tokens], name + "input_layernorm"), self.norm(g, name + "hidden_norm")], -1)
        return self.layer(z, g, positions, past)

    def layer(self, z, residual, positions, past):
        """What the layer makes of its input z, seeing the rows of `past` and itself."""
        q, k, v = (self.heads(z, 0, which, positions) for which in "qkv")
        past.append((k, v))
        k, v = (np.concatenate(t) for t in zip(*past))
        visible = np.arange(len(k)) <= np.asarray(positions)[:, None]
        return self.finish_layer(residual, 0, attend(q, k, v, visible))

    def fuse(self, features):
        """The first g of a chain."""
        return features @ self.weight("fc").T

    def for_head(self, x):
        return self.norm(x, "norm")

    def draft(self, features, tokens):
        n, past = len(features), []
        x = self.row(self.fuse(features), tokens[1:], np.arange(n), past)[-1:]
        hidden, logits, drafts = [], [], []
        while True:
            hidden.append(x[0])
            logits.append(self.head_logits(self.for_head(x[0])))
            drafts.append(int(self.ids(logits[-1].argmax())))
            if len(drafts) == self.size:
                return {"hidden": np.array(hidden), "logits": np.array(logits), "tokens": drafts}
            x = self.row(x, drafts[-1:], [n - 1 + len(drafts)], past)


class Medusa(Drafter):
    """Heads on the target's last state after its final norm. "hidden": what each output matrix reads."""

    taps = ["final"]

    def __init__(self, folder, target):
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = golden.read_safetensors(folder / "model.safetensors", target.embedding.dtype)
        self.target, self.size = target, self.config["medusa_num_heads"]
        self.index = {"heads": self.size, "about": "features: the target's states after its final norm. hidden: what each output matrix reads."}

    def ids(self, rows):
        return rows

    def draft(self, features, tokens):
        hidden, logits, layers = [], [], self.config["medusa_num_layers"]
        for i in range(self.size):
            y = features[-1]
            for j in range(layers):
                y = y + silu(self.tensors[f"{i}.{j}.linear.weight"] @ y + self.tensors[f"{i}.{j}.linear.bias"])
            hidden.append(y)
            logits.append(self.tensors[f"{i}.{layers}.weight"] @ y)
        return {"hidden": np.array(hidden), "logits": np.array(logits), "tokens": [int(row.argmax()) for row in logits]}


DRAFTERS = {"dspark": Block, "dspark_gated": Block, "dspark_rnn": Block, "dspark_speculators": Block, "dflash": Block,
            "dflash_zlab": Block, "eagle3": Eagle3, "eagle3_specforge": Eagle3, "medusa": Medusa}


def load(model, name, target):
    return DRAFTERS[name](MODELS / model / name, target)


def present(model):
    return [name for name in DRAFTERS if (MODELS / model / name / "model.safetensors").exists()]


# ---- acceptance ------------------------------------------------------------------------------------------------------

def speculate_greedily(drafter, tokens, prompt, text, features):
    """Accepted drafts of each round until `tokens` tokens are out. The first token comes with the prompt, not from a round.

    `text`: the target's greedy continuation of the `prompt`, with `features` of all but its last token. The last round counts
    in full although it may run past the end, so `text` has at least drafter.size + 1 tokens more than asked.
    """
    at, rounds, confidence = 0, [], []
    while at + 1 < tokens:
        draft = drafter.draft(features[:len(prompt) + at], prompt + text[:at + 1])
        count = 0
        while count < drafter.size and draft["tokens"][count] == text[at + 1 + count]:
            count += 1
        rounds.append(count)
        confidence.append(draft.get("confidence"))
        at += count + 1
    return rounds, confidence


def acceptance_figures(rounds, size):
    counts = np.array(rounds)
    reached = [int((counts >= k).sum()) for k in range(size + 1)]
    return {"rounds": len(counts), "mean_length": round(1 + float(counts.mean()), 4),
            "unconditional": [round(reached[k] / len(counts), 4) for k in range(1, size + 1)],
            "conditional": [round(reached[k] / max(1, reached[k - 1]), 4) for k in range(1, size + 1)]}


def acceptance_golden(target, drafter, encoded):
    every, each = [], []
    for ids, about in encoded:
        text, features = target.continue_greedily(ids, ACCEPTANCE_TOKENS + drafter.size + 1, drafter.taps)
        rounds, _ = speculate_greedily(drafter, ACCEPTANCE_TOKENS, ids, text, features)
        every += rounds
        each.append({**about, "input_ids": ids, "output": text[:ACCEPTANCE_TOKENS], "accepted": rounds})
    golden.write_json(OUT / "demo_acceptance.json", {
        "about": "Greedy chains, all drafts verified, end marks ignored. The first token of an output belongs to the prompt "
                 "pass. Rounds are counted until the output has `tokens` tokens; the last one counts in full. "
                 "mean_length is 1 + accepted / rounds.",
        "tokens": ACCEPTANCE_TOKENS, "block_size": drafter.size, **acceptance_figures(every, drafter.size), "prompts": each})


# ---- what the tests read ---------------------------------------------------------------------------------------------

def drafter_golden(name, target, drafter, prompts, whole=True):
    """Sequences are a prompt and its greedy continuation; anchors lie in both. Whole logits, if at all, only of one block."""
    arrays, index = {}, {**drafter.index, "blocks": []}
    for p, (ids, about) in enumerate(prompts):
        greedy, features = target.continue_greedily(ids, golden.GREEDY_TOKENS, drafter.taps)
        sequence = ids + greedy
        arrays[f"prompt{p}.sequence"] = i32(sequence)
        anchors = [1, len(ids) // 2, len(ids), len(ids) + 9]
        arrays[f"prompt{p}.features"] = f32(features[:anchors[-1]])
        for a, n in enumerate(anchors):
            draft, key = drafter.draft(features[:n], sequence[:n + 1]), f"prompt{p}.anchor{a}"
            top = np.argsort(-draft["logits"], -1, kind="stable")[:, :TOP]
            arrays |= {f"{key}.hidden": f32(draft["hidden"]), f"{key}.tokens": i32(draft["tokens"])}
            if "confidence" in draft:
                arrays[f"{key}.confidence"] = f32(draft["confidence"])
            arrays |= {f"{key}.top_ids": i32(drafter.ids(top)), f"{key}.top_logits": f32(np.take_along_axis(draft["logits"], top, -1))}
            if "base" in draft:
                arrays[f"{key}.top_base"] = f32(np.take_along_axis(draft["base"], top, -1))
            if whole and p == 0 and a == 2:
                arrays |= {f"{key}.{part}": f32(draft[part]) for part in ("base", "logits") if part in draft}
            entry = {"key": key, "prompt": p, "anchor": sequence[n], "context_length": n, "tokens": draft["tokens"]}
            if "confidence" in draft:
                entry["confidence"] = [round(float(x), 6) for x in draft["confidence"]]
            index["blocks"].append(entry)
    golden.write_safetensors(OUT / f"{name}.safetensors", arrays)
    golden.write_json(OUT / f"{name}.json", index)


def demo_goldens(only):
    text, target = golden.Text(MODELS / "demo/target"), golden.Target(MODELS / "demo/target")
    for name in only or present("demo"):
        drafter = load("demo", name, target)
        if name == "dspark":
            drafter_golden("demo_dspark", target, drafter, golden.short_demo_prompts(text, ("sqlite", "python", "speech"), 40))
            encoded = [(text.encode(row["prompt"]), {"id": row["id"], "kind": row["kind"]}) for row in golden.demo_prompts()]
            acceptance_golden(target, drafter, encoded[:ACCEPTANCE_PROMPTS])
        else:
            drafter_golden(f"demo_{name}", target, drafter, golden.short_demo_prompts(text, ("sqlite",), 24), whole=False)


def tiny_goldens(only):
    text, target = golden.Text(MODELS / "tiny/target"), golden.Target(MODELS / "tiny/target")
    for name in only or present("tiny"):
        drafter_golden(f"tiny_{name}", target, load("tiny", name, target), golden.tiny_prompts(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("all", "demo", "tiny"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these drafters")
    args = parser.parse_args()
    if args.all or args.tiny:
        tiny_goldens(args.only)
    if args.all or args.demo:
        demo_goldens(args.only)


if __name__ == "__main__":
    main()
