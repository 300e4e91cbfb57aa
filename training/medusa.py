"""Medusa heads for training: each a residual block and an output matrix on the target's last state."""
import torch
import torch.nn.functional as F

import losses

HEADS, LAYERS = 4, 1
HEAD_DECAY = 0.8


def config_for(target):
    """`medusa_num_heads` and the like are the published names; the sizes let a loader check the files."""
    return {"architectures": ["MedusaModel"], "model_type": "medusa", "medusa_num_heads": HEADS, "medusa_num_layers": LAYERS,
            "hidden_size": target["hidden_size"], "vocab_size": target["vocab_size"],
            "base_model_name_or_path": "../target", "torch_dtype": "bfloat16"}


class Medusa(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        h, v, n = config["hidden_size"], config["vocab_size"], config["medusa_num_heads"]
        parameters = lambda *shape: torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for _ in range(n))
        self.linear, self.bias, self.output = parameters(h, h), parameters(h), parameters(v, h)

    @torch.no_grad()
    def start_from(self, target):
        """Every head begins as the target's own head."""
        for output in self.output:
            output.copy_(target.embedding)

    def states(self, i, y):
        """Head i predicts the token i + 2 positions after the one whose final normed state is y [..., h]."""
        return y + F.silu(F.linear(y, self.linear[i].bfloat16(), self.bias[i].bfloat16()))


def last_states(batch):
    """Of the position before each anchor: it chose the anchor."""
    index = (batch.anchors - 1)[:, :, None].expand(-1, -1, batch.states.shape[-1])
    return batch.states.gather(1, index)


def loss(model, target, batch):
    y, total = last_states(batch), 0.0
    weight = losses.position_weights(batch.anchors, [HEAD_DECAY ** i for i in range(HEADS)]).view(-1, HEADS)
    for i in range(HEADS):
        following = batch.tokens.gather(1, batch.anchors + 1 + i)
        total = total + losses.OwnHeadLoss.apply(model.states(i, y).flatten(0, 1), model.output[i], following.flatten(),
                                                 weight[:, i].contiguous())
    return total


@torch.no_grad()
def greedy_drafts(model, target, batch):
    y = last_states(batch)
    return torch.stack([(model.states(i, y) @ model.output[i].bfloat16().t()).float().argmax(-1) for i in range(HEADS)], -1)


def names(model):
    out = {}
    for i in range(model.config["medusa_num_heads"]):
        out |= {f"{i}.0.linear.weight": model.linear[i], f"{i}.0.linear.bias": model.bias[i],
                f"{i}.1.weight": model.output[i]}
    return out
