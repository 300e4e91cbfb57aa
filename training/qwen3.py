"""The Qwen3 decoder for training: float32 parameters, bfloat16 matrix products, float32 residual stream."""
import torch
import torch.nn.functional as F

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 640,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "max_position_embeddings": 2048,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 5,
    "use_cache": True,
    "initializer_range": 0.02,
    "bos_token_id": 4092,
    "eos_token_id": 4094,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
}


class RmsNormFunction(torch.autograd.Function):
    """Normalises the last dimension in float32 and returns bfloat16."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        x = x.float()
        scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        unit = x * scale
        ctx.save_for_backward(unit, scale, weight)
        return (unit * weight).bfloat16()

    @staticmethod
    def backward(ctx, grad):
        unit, scale, weight = ctx.saved_tensors
        grad = grad.float()
        grad_weight = (grad * unit).flatten(0, -2).sum(0)
        grad = grad * weight
        grad_x = (grad - unit * (grad * unit).mean(-1, keepdim=True)).mul_(scale)
        return grad_x, grad_weight, None


class TiedLossFunction(torch.autograd.Function):
    """Mean cross entropy of the tied head. Goes by chunks of rows and keeps gradients instead of logits."""

    CHUNK = 256

    @staticmethod
    def forward(ctx, hidden, embedding, targets):
        grad_hidden, total = torch.empty_like(hidden), 0.0
        grad_embedding = torch.zeros(embedding.shape)
        for h, t, g in zip(hidden.split(TiedLossFunction.CHUNK), targets.split(TiedLossFunction.CHUNK),
                           grad_hidden.split(TiedLossFunction.CHUNK)):
            logp = F.log_softmax((h @ embedding.t()).float(), -1)
            total += F.nll_loss(logp, t, reduction="sum").item()
            p = logp.exp_()
            p[torch.arange(len(t)), t] -= 1
            p = p.bfloat16()
            g.copy_(p @ embedding)
            grad_embedding += (p.t() @ h).float()
        ctx.save_for_backward(grad_hidden, grad_embedding)
        ctx.rows = len(targets)
        return torch.tensor(total / len(targets))

    @staticmethod
    def backward(ctx, grad):
        grad_hidden, grad_embedding = ctx.saved_tensors
        return grad_hidden * (grad / ctx.rows), (grad_embedding * (grad / ctx.rows)).bfloat16(), None


def rms_norm(x, weight, eps):
    return RmsNormFunction.apply(x, weight, eps)


def rope_tables(config, positions):
    """cos and sin, [positions, head_dim], for the half-split form."""
    half = config["head_dim"] // 2
    inverse = config["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * inverse
    angles = torch.cat([angles, angles], -1)
    return angles.cos().bfloat16(), angles.sin().bfloat16()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def grouped_attention(q, k, v, mask):
    """q [B, T, H, D] and k, v [B, S, KV, D] -> [B, T, H*D]. The query heads of one kv head are stacked as rows.

    `mask` [T, S] or [B, 1, 1, T, S] is added to the scores.
    """
    b, t, heads, d = q.shape
    kv = k.shape[2]
    group = heads // kv
    q = (q * d ** -0.5).reshape(b, t, kv, group, d).permute(0, 2, 3, 1, 4).reshape(b, kv, group * t, d)
    scores = (q @ k.permute(0, 2, 3, 1)).view(b, kv, group, t, -1)
    weights = (scores + mask).softmax(-1).view(b, kv, group * t, -1)
    out = weights @ v.transpose(1, 2)
    return out.view(b, kv, group, t, d).permute(0, 3, 1, 2, 4).reshape(b, t, heads * d)


def causal_attention(q, k, v, chunk=128):
    """Grouped attention by chunks of queries, each over the keys up to its own end."""
    t = q.shape[1]
    chunk = max(chunk, t // 4)
    triangle = torch.full((chunk, chunk), -1e9).triu(1).bfloat16()
    out = []
    for begin in range(0, t, chunk):
        end = min(begin + chunk, t)
        mask = torch.cat([triangle.new_zeros(end - begin, begin), triangle[:end - begin, :end - begin]], 1)
        out.append(grouped_attention(q[:, begin:end], k[:, :end], v[:, :end], mask))
    return torch.cat(out, 1)


class Layer(torch.nn.Module):
    """One decoder layer. Parameter names are those of the checkpoint."""

    def __init__(self, c):
        super().__init__()
        self.c, self.frozen = c, None
        heads, kv, d, h, f = (c[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
                                             "intermediate_size"))
        residual_std = 0.02 / (2 * c["num_hidden_layers"]) ** 0.5
        matrix = lambda rows, columns, std=0.02: torch.nn.Parameter(torch.randn(rows, columns) * std)
        ones = lambda n: torch.nn.Parameter(torch.ones(n))
        self.weights = torch.nn.ParameterDict()
        for name, value in {
            "input_layernorm": ones(h), "post_attention_layernorm": ones(h),
            "self_attn.q_proj": matrix(heads * d, h), "self_attn.k_proj": matrix(kv * d, h),
            "self_attn.v_proj": matrix(kv * d, h), "self_attn.o_proj": matrix(h, heads * d, residual_std),
            "self_attn.q_norm": ones(d), "self_attn.k_norm": ones(d),
            "mlp.gate_proj": matrix(f, h), "mlp.up_proj": matrix(f, h), "mlp.down_proj": matrix(h, f, residual_std),
        }.items():
            self.weights[name.replace(".", "/")] = value

    def w(self, *names):
        """Matrices in bfloat16, stacked by rows. A frozen layer keeps them."""
        if self.frozen is not None and names in self.frozen:
            return self.frozen[names]
        matrix = torch.cat([self.weights[n.replace(".", "/")].bfloat16() for n in names])
        if self.frozen is not None:
            self.frozen[names] = matrix
        return matrix

    def norm(self, x, name):
        return rms_norm(x, self.weights[name.replace(".", "/")], self.c["rms_norm_eps"])

    def qkv(self, u, rope):
        c, d = self.c, self.c["head_dim"]
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        x = F.linear(u, self.w("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")).unflatten(-1, (-1, d))
        q, k, v = x.split([heads, kv, kv], -2)
        cos, sin = (t[:, None] for t in rope)
        q = rotate(self.norm(q, "self_attn.q_norm"), cos, sin)
        k = rotate(self.norm(k, "self_attn.k_norm"), cos, sin)
        return q, k, v

    def mlp(self, x):
        u = self.norm(x, "post_attention_layernorm")
        gate, up = F.linear(u, self.w("mlp.gate_proj", "mlp.up_proj")).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.w("mlp.down_proj"))

    def forward(self, x, rope, attention=causal_attention):
        """`attention(q, k, v)` is a parameter so that sampling can put its cache there."""
        q, k, v = self.qkv(self.norm(x, "input_layernorm"), rope)
        x = x + F.linear(attention(q, k, v), self.w("self_attn.o_proj"))
        return x + self.mlp(x)


class Qwen3(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = torch.nn.Parameter(torch.randn(config["vocab_size"], config["hidden_size"]) * 0.02)
        self.layers = torch.nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = torch.nn.Parameter(torch.ones(config["hidden_size"]))

    def hidden(self, ids, taps=()):
        """Final normed states [B, T, h], and the residual stream after each tapped layer."""
        t = ids.shape[1]
        rope = rope_tables(self.config, torch.arange(t))
        x, features = self.embedding[ids], []
        for i, layer in enumerate(self.layers):
            x = layer(x, rope)
            if i in taps:
                features.append(x)
        return rms_norm(x, self.norm, self.config["rms_norm_eps"]), features

    def freeze(self):
        for layer in self.layers:
            layer.frozen = {}
        return self.requires_grad_(False)

    def loss(self, ids):
        hidden, _ = self.hidden(ids[:, :-1])
        return TiedLossFunction.apply(hidden.flatten(0, 1), self.embedding.bfloat16(), ids[:, 1:].reshape(-1))


def checkpoint_tensors(model):
    """Tensors under their Hugging Face names, rounded to bfloat16."""
    out = {"model.embed_tokens.weight": model.embedding}
    for i, layer in enumerate(model.layers):
        for name, value in layer.weights.items():
            out[f"model.layers.{i}.{name.replace('/', '.')}.weight"] = value
    out["model.norm.weight"] = model.norm
    return {name: value.detach().bfloat16() for name, value in out.items()}


def load_checkpoint(model, tensors):
    with torch.no_grad():
        for name, value in tensors.items():
            parts = name.removeprefix("model.").removesuffix(".weight").split(".", 2)
            if parts[0] == "layers":
                target = model.layers[int(parts[1])].weights[parts[2].replace(".", "/")]
            else:
                target = {"embed_tokens": model.embedding, "norm": model.norm}[parts[0]]
            target.copy_(value.float())
    return model
