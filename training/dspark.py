"""The DSpark drafter for training: many anchored blocks of one sequence at once, heads, and the loss."""
import types

import torch
import torch.nn.functional as F

import qwen3

BLOCK = 7
TAPS = [1, 2, 3]
LAYERS = 2
MARKOV_RANK = 64
MASK_ID = 4095
POSITION_DECAY = 4.0
CE_WEIGHT, L1_WEIGHT, CONFIDENCE_WEIGHT = 0.1, 0.9, 1.0


def config_for(target, head="vanilla"):
    """`head`: vanilla, gated or rnn."""
    return {**target, "architectures": ["Qwen3DSparkModel"], "num_target_layers": target["num_hidden_layers"],
            "num_hidden_layers": LAYERS, "layer_types": ["full_attention"] * LAYERS, "max_window_layers": LAYERS,
            "block_size": BLOCK, "mask_token_id": MASK_ID, "target_layer_ids": TAPS, "tie_word_embeddings": False,
            "markov_rank": MARKOV_RANK, "markov_head_type": head, "enable_confidence_head": True,
            "confidence_head_with_markov": True, "num_anchors": 128}


class Backbone(torch.nn.Module):
    """The parallel stage: layers that read a block of masks over the target's features."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        h = config["hidden_size"]
        self.fc = torch.nn.Parameter(torch.randn(h, len(config["target_layer_ids"]) * h) * 0.02)
        self.hidden_norm = torch.nn.Parameter(torch.ones(h))
        self.layers = torch.nn.ModuleList(qwen3.Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = torch.nn.Parameter(torch.ones(h))

    @torch.no_grad()
    def start_from(self, target):
        """Begin as a copy of the target's last layer, fed by the residual stream that enters it.

        Then the context keys and values of a draft layer are the ones the target itself computes there.
        """
        h = self.config["hidden_size"]
        last = target.layers[-1]
        tap = self.config["target_layer_ids"].index(len(target.layers) - 2)
        self.fc.mul_(0.1)[:, tap * h:(tap + 1) * h] += torch.eye(h)
        self.hidden_norm.copy_(last.weights["input_layernorm"])
        self.norm.copy_(target.norm)
        for layer in self.layers:
            for name, value in last.weights.items():
                layer.weights[name].copy_(value)

    def context(self, features):
        """c = hidden_norm(fc F), shared by all draft layers."""
        return qwen3.rms_norm(F.linear(features, self.fc.bfloat16()), self.hidden_norm, self.config["rms_norm_eps"])

    def blocks(self, context, embedding, tokens, anchors):
        """Normed states y [B, A, block, h] of the blocks anchored at positions `anchors` [B, A] of `tokens` [B, T]."""
        c, size = self.config, self.config["block_size"]
        batch, count = anchors.shape
        length = context.shape[1]
        ids = torch.full((batch, count, size), c["mask_token_id"])
        ids[:, :, 0] = tokens.gather(1, anchors)
        positions = (anchors[:, :, None] + torch.arange(size)).flatten(1)  # [B, A*size]
        cos, sin = qwen3.rope_tables(c, torch.arange(length + size))
        rope = (cos[positions], sin[positions])
        seen = torch.arange(length) < anchors[:, :, None]  # context positions before the anchor
        mask = torch.zeros(seen.shape).masked_fill_(~seen, -1e9).bfloat16()
        mask = mask.repeat_interleave(size, 1)[:, None, None]  # [B, 1, 1, A*size, T]
        x = embedding[ids.flatten(1)]
        for layer in self.layers:
            u = layer.norm(x, "input_layernorm")
            q, k, v = block_qkv(layer, u, rope)
            ck, cv = context_kv(layer, context, (cos[:length], sin[:length]))
            x = x + F.linear(block_attention(q, k, v, ck, cv, mask, size), layer.w("self_attn.o_proj"))
            x = x + layer.mlp(x)
        y = qwen3.rms_norm(x, self.norm, c["rms_norm_eps"])
        return y.view(batch, count, size, -1)


class DSpark(Backbone):
    def __init__(self, config):
        super().__init__(config)
        h, v, r = config["hidden_size"], config["vocab_size"], config["markov_rank"]
        self.markov_w1 = torch.nn.Parameter(torch.randn(v, r) * 0.1)
        self.markov_w2 = torch.nn.Parameter(torch.zeros(v, r))
        shape = {"gated": (r, h + r), "rnn": (3 * r, 2 * r + h)}.get(config["markov_head_type"])
        if shape:
            self.head_weight = torch.nn.Parameter(torch.randn(shape) * 0.02)
            self.head_bias = torch.nn.Parameter(torch.zeros(shape[0]))
        self.confidence_weight = torch.nn.Parameter(torch.zeros(1, h + r))
        self.confidence_bias = torch.nn.Parameter(torch.zeros(1))

    def markov_rows(self, previous):
        return F.embedding(previous, self.markov_w1).bfloat16()

    def head_step(self, state, y, rows):
        """What the head multiplies with w2 after the states y and the Markov rows of one position, and its next state."""
        if self.config["markov_head_type"] == "vanilla":
            return state, rows
        if self.config["markov_head_type"] == "gated":
            return state, self.head_linear(y, rows).sigmoid() * rows
        gate, candidate, out = self.head_linear(torch.zeros_like(rows) if state is None else state, rows, y).chunk(3, -1)
        gate, candidate = gate.sigmoid(), candidate.tanh()
        return (1 - gate) * candidate + (0 if state is None else gate * state), out.tanh()

    def head_linear(self, *inputs):
        return F.linear(torch.cat(inputs, -1), self.head_weight.bfloat16(), self.head_bias.bfloat16())

    def head_rows(self, y, rows):
        """The same for whole blocks y [B, A, size, h] and rows [B, A, size, r], fed with the true tokens."""
        state, out = None, []
        for i in range(y.shape[2]):
            state, row = self.head_step(state, y[:, :, i], rows[:, :, i])
            out.append(row)
        return torch.stack(out, 2)

    def confidence(self, y, rows):
        return (torch.cat([y, rows], -1).float() @ self.confidence_weight.t()).squeeze(-1) + self.confidence_bias


def block_qkv(layer, u, rope):
    """As Layer.qkv, with rotations that differ by sequence."""
    c = layer.c
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    x = F.linear(u, layer.w("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")).unflatten(-1, (-1, c["head_dim"]))
    q, k, v = x.split([heads, kv, kv], -2)
    cos, sin = (t[:, :, None] for t in rope)
    return (qwen3.rotate(layer.norm(q, "self_attn.q_norm"), cos, sin),
            qwen3.rotate(layer.norm(k, "self_attn.k_norm"), cos, sin), v)


def context_kv(layer, context, rope):
    """Keys and values of the context; the layer's input norm is not applied to it."""
    k, v = F.linear(context, layer.w("self_attn.k_proj", "self_attn.v_proj")).unflatten(-1, (-1, layer.c["head_dim"])).chunk(2, -2)
    cos, sin = (t[:, None] for t in rope)
    return qwen3.rotate(layer.norm(k, "self_attn.k_norm"), cos, sin), v


def block_attention(q, k, v, ck, cv, mask, size):
    """Each block sees the context its mask row admits, and all of itself. q [B, A*size, H, D] -> [B, A*size, H*D]."""
    b, rows, heads, d = q.shape
    kv, length = k.shape[2], ck.shape[1]
    group, count = heads // kv, rows // size
    q = (q * d ** -0.5).view(b, rows, kv, group, d).permute(0, 2, 3, 1, 4)  # [B, KV, G, rows, D]
    to_context = (q.reshape(b, kv, group * rows, d) @ ck.permute(0, 2, 3, 1)).view(b, kv, group, rows, length) + mask
    # Inside a block: [B, KV, A, G*size, D] against [B, KV, A, size, D].
    qb = q.reshape(b, kv, group, count, size, d).transpose(2, 3).reshape(b, kv, count, group * size, d)
    kb, vb = (t.view(b, count, size, kv, d).permute(0, 3, 1, 2, 4) for t in (k, v))
    to_block = (qb @ kb.transpose(-1, -2)).view(b, kv, count, group, size, size).transpose(2, 3).reshape(b, kv, group, rows, size)
    weights = torch.cat([to_context, to_block], -1).softmax(-1)
    wc, wb = weights.split([length, size], -1)
    out = (wc.reshape(b, kv, group * rows, length) @ cv.transpose(1, 2)).view(b, kv, group, rows, d)
    wb = wb.reshape(b, kv, group, count, size, size).transpose(2, 3).reshape(b, kv, count, group * size, size)
    inner = (wb @ vb).view(b, kv, count, group, size, d).transpose(2, 3).reshape(b, kv, group, rows, d)
    return (out + inner).permute(0, 3, 1, 2, 4).reshape(b, rows, heads * d)


class DraftLossFunction(torch.autograd.Function):
    """Weighted sum over rows of 0.1 CE + 0.9 L1, by chunks; also returns the overlap 1 - L1/2 of every row.

    Rows: y [N, h] states, m [N, r] Markov rows, t [N, h] the target's states, next [N] tokens, weight [N].
    """

    CHUNK = 128

    @staticmethod
    def forward(ctx, y, m, w2, t, embedding, following, weight):
        grad_y, grad_m, grad_w2 = torch.empty_like(y), torch.empty_like(m), torch.zeros(w2.shape)
        overlap, total = torch.empty(len(y)), 0.0
        head = torch.cat([embedding, w2], 1)  # one product gives base logits plus the Markov bias
        for begin in range(0, len(y), DraftLossFunction.CHUNK):
            s = slice(begin, begin + DraftLossFunction.CHUNK)
            rows, w = torch.cat([y[s], m[s]], 1), weight[s, None]
            p = (rows @ head.t()).float().softmax(-1)
            difference = p - (t[s] @ embedding.t()).float().softmax(-1)
            l1 = difference.abs().sum(-1)
            overlap[s] = 1 - l1 / 2
            index = torch.arange(len(p))
            ce = -p[index, following[s]].clamp_min(1e-20).log()
            total += (weight[s] * (CE_WEIGHT * ce + L1_WEIGHT * l1)).sum().item()
            sign = difference.sign_()
            mean = (p * sign).sum(-1, keepdim=True)
            g = p * ((sign - mean).mul_(L1_WEIGHT).add_(CE_WEIGHT))
            g[index, following[s]] -= CE_WEIGHT
            g = g.mul_(w).bfloat16()
            grad_rows = g @ head
            grad_y[s], grad_m[s] = grad_rows[:, :y.shape[1]], grad_rows[:, y.shape[1]:]
            grad_w2 += (g.t() @ m[s]).float()
        ctx.save_for_backward(grad_y, grad_m, grad_w2)
        ctx.mark_non_differentiable(overlap)
        return torch.tensor(total), overlap

    @staticmethod
    def backward(ctx, grad, _):
        grad_y, grad_m, grad_w2 = ctx.saved_tensors
        return grad_y * grad, grad_m * grad, (grad_w2 * grad).bfloat16(), None, None, None, None


def block_targets(tokens, states, anchors, size):
    """For the blocks at `anchors`: previous tokens, following tokens and the target's states, [B, A, size(, h)]."""
    at = anchors[:, :, None] + torch.arange(size)
    rows = torch.arange(len(tokens))[:, None, None]
    return tokens[rows, at], tokens[rows, at + 1], states[rows, at]


@torch.no_grad()
def run_target(target, tokens, anchors, taps):
    """A batch as the drafters' losses take it."""
    states, features = target.hidden(tokens, taps)
    return types.SimpleNamespace(tokens=tokens, states=states, features=torch.cat(features, -1).bfloat16(), anchors=anchors)


def loss(model, target, batch):
    """The training loss and a dictionary of figures. `target` stays frozen."""
    size = model.config["block_size"]
    embedding = target.embedding.detach()
    y = model.blocks(model.context(batch.features), embedding, batch.tokens, batch.anchors)
    previous, following, target_states = block_targets(batch.tokens, batch.states, batch.anchors, size)
    weight = torch.exp(-torch.arange(size) / POSITION_DECAY).expand(previous.shape)
    weight = (weight / weight.sum()).flatten()
    m = model.markov_rows(previous)
    rows = model.head_rows(y, m).flatten(0, 2)
    y, m = y.flatten(0, 2), m.flatten(0, 2)
    draft, overlap = DraftLossFunction.apply(y, rows, model.markov_w2.bfloat16(), target_states.flatten(0, 2), embedding.bfloat16(),
                                             following.flatten(), weight)
    confidence = F.binary_cross_entropy_with_logits(model.confidence(y, m), overlap.clamp(0, 1), weight=weight, reduction="sum")
    # Expected accepted tokens when each position is accepted with its overlap.
    expected = overlap.view(-1, size).cumprod(-1).sum(-1).mean()
    return draft + CONFIDENCE_WEIGHT * confidence, {"draft": draft.item(), "confidence": confidence.item(),
                                                    "expected_length": 1 + expected.item()}


@torch.no_grad()
def greedy_drafts(model, target, batch):
    """Greedy draft tokens [B, A, size] and confidence logits."""
    y = model.blocks(model.context(batch.features), target.embedding, batch.tokens, batch.anchors)
    embedding, w2 = target.embedding.bfloat16(), model.markov_w2.bfloat16()
    previous, state, drafts, confidences = batch.tokens.gather(1, batch.anchors), None, [], []
    for i in range(model.config["block_size"]):
        m = model.markov_rows(previous)
        confidences.append(model.confidence(y[:, :, i], m))
        state, row = model.head_step(state, y[:, :, i], m)
        previous = (y[:, :, i] @ embedding.t() + row @ w2.t()).float().argmax(-1)
        drafts.append(previous)
    return torch.stack(drafts, -1), torch.stack(confidences, -1)


def backbone_names(model):
    """Checkpoint name of every parameter of the backbone."""
    out = {"fc.weight": model.fc, "hidden_norm.weight": model.hidden_norm, "norm.weight": model.norm}
    for i, layer in enumerate(model.layers):
        for name, value in layer.weights.items():
            out[f"layers.{i}.{name.replace('/', '.')}.weight"] = value
    return out


def names(model):
    out = {**backbone_names(model), "markov_head.markov_w1.weight": model.markov_w1, "markov_head.markov_w2.weight": model.markov_w2,
           "confidence_head.proj.weight": model.confidence_weight, "confidence_head.proj.bias": model.confidence_bias}
    layer = {"gated": "gate_proj", "rnn": "joint_proj"}.get(model.config["markov_head_type"])
    if layer:
        out |= {f"markov_head.{layer}.weight": model.head_weight, f"markov_head.{layer}.bias": model.head_bias}
    return out


def checkpoint_tensors(model):
    """Rounded to bfloat16. The embedding and the head are the target's and are left out."""
    return {name: value.detach().bfloat16() for name, value in names(model).items()}


def load_checkpoint(model, tensors):
    with torch.no_grad():
        for name, value in names(model).items():
            value.copy_(tensors[name].float())
    return model
