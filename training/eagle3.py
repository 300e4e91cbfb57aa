"""The EAGLE-3 drafter for training: one layer that reads its own output, unrolled from many anchors of one sequence."""
import torch
import torch.nn.functional as F

import dspark
import losses
import qwen3

STEPS = 7
STEP_DECAY = 0.8


def config_for(target):
    return {**target, "architectures": ["Qwen3Eagle3Model"], "num_target_layers": target["num_hidden_layers"],
            "num_hidden_layers": 1, "layer_types": ["full_attention"], "max_window_layers": 1,
            "target_layer_ids": dspark.TAPS, "tie_word_embeddings": False, "ttt_length": STEPS,
            "step_loss_decay": STEP_DECAY}


class Layer(qwen3.Layer):
    """Queries, keys and values come from the token's embedding and the hidden vector, side by side."""

    def __init__(self, c):
        super().__init__(c)
        h = c["hidden_size"]
        self.weights["hidden_norm"] = torch.nn.Parameter(torch.ones(h))
        for name in ("q_proj", "k_proj", "v_proj"):
            narrow = self.weights[f"self_attn/{name}"]
            self.weights[f"self_attn/{name}"] = torch.nn.Parameter(torch.randn(len(narrow), 2 * h) * 0.02)

    def inputs(self, embedded, g):
        return torch.cat([self.norm(embedded, "input_layernorm"), self.norm(g, "hidden_norm")], -1)

    def finish(self, g, attended):
        """The residual is the hidden vector before its norm."""
        x = g + F.linear(attended, self.w("self_attn.o_proj"))
        return x + self.mlp(x)


class Eagle3(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        h = config["hidden_size"]
        self.fc = torch.nn.Parameter(torch.randn(h, len(config["target_layer_ids"]) * h) * 0.02)
        self.layer = Layer(config)
        self.norm = torch.nn.Parameter(torch.ones(h))

    @torch.no_grad()
    def start_from(self, target):
        """Begin as the target's last layer on the residual stream that enters it; the embedding's half begins at random."""
        h = self.config["hidden_size"]
        tap = self.config["target_layer_ids"].index(len(target.layers) - 2)
        self.fc.mul_(0.1)[:, tap * h:(tap + 1) * h] += torch.eye(h)
        self.norm.copy_(target.norm)
        for name, value in target.layers[-1].weights.items():
            name = "hidden_norm" if name == "input_layernorm" else name
            mine = self.layer.weights[name]
            mine.copy_(value) if mine.shape == value.shape else mine[:, h:].copy_(value)

    def chains(self, features, embedding, tokens, anchors, choose):
        """Normed states of the STEPS rows of the chains anchored at positions `anchors` [B, A]: a list of [B, A, h].

        The first row of a chain pairs the features of the position before the anchor with the anchor; it is one of the
        rows of the whole sequence. The following rows take the previous output and the token `choose(step, y)` [B, A].
        """
        c, layer = self.config, self.layer
        batch, length = tokens.shape
        cos, sin = qwen3.rope_tables(c, torch.arange(length))
        g = F.linear(features[:, :-1], self.fc.bfloat16()).float()
        q, k, v = layer.qkv(layer.inputs(embedding[tokens[:, 1:]], g), (cos[:-1], sin[:-1]))
        x = layer.finish(g, qwen3.causal_attention(q, k, v))
        x = x.gather(1, (anchors - 1)[:, :, None].expand(-1, -1, x.shape[-1]))
        seen = torch.arange(length - 1) < anchors[:, :, None]
        mask = torch.zeros(seen.shape).masked_fill_(~seen, -1e9).bfloat16()[:, None, None]  # [B, 1, 1, A, T-1]
        own, out = [], []
        while True:
            out.append(qwen3.rms_norm(x, self.norm, c["rms_norm_eps"]))
            if len(out) == c["ttt_length"]:
                return out
            positions = anchors - 1 + len(out)
            u = layer.inputs(embedding[choose(len(out), out[-1])], x)
            rows_q, rows_k, rows_v = dspark.block_qkv(layer, u, (cos[positions], sin[positions]))
            own.append((rows_k, rows_v))
            x = layer.finish(x, chain_attention(rows_q, k, v, mask, own))


def chain_attention(q, k, v, mask, own):
    """q [B, A, H, D] sees the context its mask row admits, and the rows `own` of its chain. -> [B, A, H*D]."""
    b, rows, heads, d = q.shape
    kv, length, steps = k.shape[2], k.shape[1], len(own)
    group = heads // kv
    q = (q * d ** -0.5).view(b, rows, kv, group, d)
    by_head = q.permute(0, 2, 3, 1, 4).reshape(b, kv, group * rows, d)
    to_context = (by_head @ k.permute(0, 2, 3, 1)).view(b, kv, group, rows, length) + mask
    ok, ov = (torch.stack(t, 3) for t in zip(*own))  # [B, A, KV, steps, D]
    to_chain = (q @ ok.transpose(-1, -2)).permute(0, 2, 3, 1, 4)  # [B, KV, G, A, steps]
    wc, wo = torch.cat([to_context, to_chain], -1).softmax(-1).split([length, steps], -1)
    out = (wc.reshape(b, kv, group * rows, length) @ v.transpose(1, 2)).view(b, kv, group, rows, d)
    return (out.permute(0, 3, 1, 2, 4) + wo.permute(0, 3, 1, 2, 4) @ ov).reshape(b, rows, heads * d)


def loss(model, target, batch):
    steps = model.config["ttt_length"]
    previous, following, states = dspark.block_targets(batch.tokens, batch.states, batch.anchors, steps)
    y = model.chains(batch.features, target.embedding, batch.tokens, batch.anchors, lambda i, _: previous[:, :, i])
    weight = losses.position_weights(batch.anchors, [STEP_DECAY ** i for i in range(steps)])
    return losses.FrozenHeadLoss.apply(torch.stack(y, 2).flatten(0, 2), target.embedding.bfloat16(), following.flatten(),
                                       weight, states.flatten(0, 2))


@torch.no_grad()
def greedy_drafts(model, target, batch):
    """Greedy draft tokens [B, A, steps], every row fed with the draft before it."""
    head = target.embedding.bfloat16()
    pick = lambda y: (y @ head.t()).float().argmax(-1)
    y = model.chains(batch.features, target.embedding, batch.tokens, batch.anchors, lambda _, last: pick(last))
    return torch.stack([pick(row) for row in y], -1)


def names(model):
    out = {"fc.weight": model.fc, "norm.weight": model.norm}
    return {**out, **{f"layers.0.{n.replace('/', '.')}.weight": w for n, w in model.layer.weights.items()}}
