"""Muon for the hidden matrices, AdamW for everything else."""
import torch


def orthogonalise(g, steps=5):
    """Newton-Schulz iteration towards the nearest semi-orthogonal matrix; g is a batch [n, rows, columns]."""
    tall = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if tall else g
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * (gram @ gram)) @ x
    return (x.transpose(1, 2) if tall else x).float()


class Muon:
    """Momentum (Nesterov), then orthogonalised; matrices of one shape go together."""

    def __init__(self, params, momentum=0.95, decay=0.05):
        self.momentum, self.decay = momentum, decay
        self.params = list(params)
        self.buffers = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, lr):
        by_shape = {}
        for p, buffer in zip(self.params, self.buffers):
            buffer.lerp_(p.grad, 1 - self.momentum)
            update = p.grad.lerp(buffer, self.momentum)
            by_shape.setdefault(p.shape, []).append((p, update))
            p.grad = None
        for (rows, columns), group in by_shape.items():
            updates = orthogonalise(torch.stack([u for _, u in group]))
            scale = max(1.0, rows / columns) ** 0.5
            for (p, _), update in zip(group, updates):
                p.mul_(1 - lr * self.decay).add_(update, alpha=-lr * scale)

    def state(self):
        return self.buffers

    def restore(self, state):
        for buffer, value in zip(self.buffers, state):
            buffer.copy_(value)


class Pair:
    """Both optimizers behind one learning-rate multiplier."""

    def __init__(self, matrices, others, muon_lr, adam_lr):
        self.muon, self.muon_lr, self.adam_lr = Muon(matrices), muon_lr, adam_lr
        self.adam = torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0)

    def step(self, multiplier):
        self.muon.step(self.muon_lr * multiplier)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * multiplier
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def state(self):
        return {"muon": self.muon.state(), "adam": self.adam.state_dict()}

    def restore(self, state):
        self.muon.restore(state["muon"])
        self.adam.load_state_dict(state["adam"])
