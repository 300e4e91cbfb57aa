"""Reference outputs for the tests of EAGLE: chains of models/tiny/eagle and eagle3_speculators, and trees.

Plain float64; reads the model directories alone. A node of a tree is computed from the whole path that leads to it, so nothing
here depends on how rows of a tree are kept. `golden_eagle.py` rewrites
tests/golden/tiny_eagle.*, tiny_eagle3_speculators.* and tiny_eagle_trees.json.
"""
import numpy as np

import golden
import golden_drafters
from golden import MODELS, OUT

TOPK, DEPTH, NODES = 3, 3, 10
STEPS = 4


class Eagle(golden_drafters.Eagle3):
    """EAGLE and EAGLE-2: fc joins the token's embedding and the target's state after its final norm; no norm follows the layer."""

    taps = ["final"]

    def __init__(self, folder, target):
        golden_drafters.Drafter.__init__(self, folder, target)
        self.size, self.offsets = STEPS, None
        self.index = {"steps": self.size, "target_layer_ids": self.taps,
                      "about": "hidden: outputs of the rows. Pairs are (state of i, token of i + 1) at position i."}

    def row(self, g, tokens, positions, past):
        u = np.concatenate([self.embedding[tokens], g], -1) @ self.weight("fc").T + self.tensors["fc.bias"]
        return self.layer(u, u, positions, past)

    def fuse(self, features):
        return features

    def for_head(self, x):
        return x


class Speculators(golden_drafters.Eagle3):
    """EAGLE-3 with a norm before fc, a bias in it, a normed residual and a normed output, on the default layers."""

    def __init__(self, folder, target):
        golden_drafters.Drafter.__init__(self, folder, target)
        n = target.config["num_hidden_layers"]
        self.taps = [1, n // 2 - 1, n - 4]  # the inputs of layers 2, n / 2 and n - 3
        self.size, self.offsets = self.config["speculators_config"]["proposal_methods"][0]["speculative_tokens"], None
        self.index = {"steps": self.size, "target_layer_ids": self.taps, "about": "hidden: outputs of the rows, after the final norm."}

    def fuse(self, features):
        return self.norm(features, "input_norm") @ self.weight("fc").T + self.tensors["fc.bias"]

    def row(self, g, tokens, positions, past):
        name = "layers.0."
        residual = self.norm(g, name + "hidden_norm")
        z = np.concatenate([self.norm(self.embedding[tokens], name + "input_layernorm"), residual], -1)
        return self.norm(self.layer(z, residual, positions, past), "norm")

    def for_head(self, x):
        return x


def log_probs(drafter, features, tokens, path):
    """Of the token behind `path`, which follows the anchor: over the draft vocabulary."""
    n, past = len(features), []
    x = drafter.row(drafter.fuse(features), tokens[1:], np.arange(n), past)[-1:]
    for i, token in enumerate(path):
        x = drafter.row(x, [token], [n + i], past)
    logits = drafter.head_logits(drafter.for_head(x[0]))
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def tree(drafter, features, tokens):
    """Tokens and parents (-1: the anchor) of EAGLE-2's tree."""
    nodes = []  # (path, parent, score), level by level
    frontier = [(-1, [], 0.0)]
    for _ in range(DEPTH):
        level = []
        for parent, path, score in frontier:
            p = log_probs(drafter, features, tokens, path)
            for i in np.argsort(-p, kind="stable")[:TOPK]:
                level.append((path + [int(drafter.ids(i))], parent, score + p[i]))
        first = len(nodes)
        nodes += level
        best = sorted(sorted(range(len(level)), key=lambda i: -level[i][2])[:TOPK])
        frontier = [(first + i, level[i][0], level[i][2]) for i in best]
    chosen = sorted(sorted(range(len(nodes)), key=lambda i: -nodes[i][2])[:NODES])
    place = {-1: -1, **{node: i for i, node in enumerate(chosen)}}
    return {"tokens": [nodes[i][0][-1] for i in chosen], "parents": [place[nodes[i][1]] for i in chosen],
            "scores": [round(float(nodes[i][2]), 6) for i in chosen]}


def main():
    text, target = golden.Text(MODELS / "tiny/target"), golden.Target(MODELS / "tiny/target")
    prompts = golden.tiny_prompts(text)
    drafters = {"eagle": Eagle(MODELS / "tiny/eagle", target)}
    golden_drafters.drafter_golden("tiny_eagle", target, drafters["eagle"], prompts)
    speculators = Speculators(MODELS / "tiny/eagle3_speculators", target)
    golden_drafters.drafter_golden("tiny_eagle3_speculators", target, speculators, prompts, whole=False)
    trees = {"topk": TOPK, "num_steps": DEPTH, "nodes": NODES, "trees": []}
    for name in ("eagle3", "eagle3_specforge"):
        drafters[name] = golden_drafters.Eagle3(MODELS / "tiny" / name, target)
    for name, drafter in drafters.items():
        for ids, _ in prompts:
            greedy, features = target.continue_greedily(ids, 8, drafter.taps)
            for n in (1, len(ids) + 5):
                tokens = (ids + greedy)[:n + 1]
                trees["trees"].append({"drafter": name, "sequence": tokens, **tree(drafter, features[:n], tokens)})
    golden.write_json(OUT / "tiny_eagle_trees.json", trees)


if __name__ == "__main__":
    main()
