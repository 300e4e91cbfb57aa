"""Cross entropy of drafts, by chunks of rows that keep gradients instead of logits."""
import torch

CHUNK = 256


def chunks(count):
    return (slice(begin, begin + CHUNK) for begin in range(0, count, CHUNK))


class FrozenHeadLoss(torch.autograd.Function):
    """Weighted cross entropy of rows y [N, h] under the target's head.

    Against the tokens `following` [N], or, with the target's states t [N, h], against the target's whole distribution.
    """

    @staticmethod
    def forward(ctx, y, head, following, weight, t=None):
        grad, total = torch.empty_like(y), 0.0
        for s in chunks(len(y)):
            logits = (y[s] @ head.t()).float()
            p = logits.softmax(-1)
            index = torch.arange(len(p))
            if t is None:
                total -= (weight[s] * p[index, following[s]].clamp_min(1e-20).log()).sum().item()
                p[index, following[s]] -= 1
            else:
                q = (t[s] @ head.t()).float().softmax(-1)
                total += (weight[s] * (logits.logsumexp(-1) - (q * logits).sum(-1))).sum().item()
                p -= q
            grad[s] = p.mul_(weight[s, None]).bfloat16() @ head
        ctx.save_for_backward(grad)
        return torch.tensor(total)

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad, None, None, None, None


class OwnHeadLoss(torch.autograd.Function):
    """Weighted cross entropy of rows x [N, h] under a trained head [V, h] (float32)."""

    @staticmethod
    def forward(ctx, x, head, following, weight):
        grad_x, grad_head, total = torch.empty_like(x), torch.zeros_like(head), 0.0
        matrix = head.bfloat16()
        for s in chunks(len(x)):
            p = (x[s] @ matrix.t()).float().softmax(-1)
            index = torch.arange(len(p))
            total -= (weight[s] * p[index, following[s]].clamp_min(1e-20).log()).sum().item()
            p[index, following[s]] -= 1
            g = p.mul_(weight[s, None]).bfloat16()
            grad_x[s] = g @ matrix
            grad_head += (g.t() @ x[s]).float()
        ctx.save_for_backward(grad_x, grad_head)
        return torch.tensor(total)

    @staticmethod
    def backward(ctx, grad):
        grad_x, grad_head = ctx.saved_tensors
        return grad_x * grad, grad_head * grad, None, None


def position_weights(anchors, decay):
    """A weight for every row of blocks [B, A, size], falling by position like `decay` (a list) and adding to one."""
    weight = torch.tensor(decay).expand(*anchors.shape, len(decay))
    return (weight / weight.sum()).flatten()
