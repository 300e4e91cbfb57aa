"""The DFlash drafter for training: DSpark's backbone and layout without its heads, trained by cross entropy alone."""
import math

import torch

import dspark
import losses


def config_for(target):
    return {**dspark.config_for(target), "markov_rank": 0, "enable_confidence_head": False, "confidence_head_with_markov": False}


class DFlash(dspark.Backbone):
    pass


def states(model, target, batch):
    return model.blocks(model.context(batch.features), target.embedding, batch.tokens, batch.anchors)


def loss(model, target, batch):
    size = model.config["block_size"]
    _, following, _ = dspark.block_targets(batch.tokens, batch.states, batch.anchors, size)
    weight = losses.position_weights(batch.anchors, [math.exp(-i / dspark.POSITION_DECAY) for i in range(size)])
    return losses.FrozenHeadLoss.apply(states(model, target, batch).flatten(0, 2), target.embedding.bfloat16(),
                                       following.flatten(), weight)


@torch.no_grad()
def greedy_drafts(model, target, batch):
    return (states(model, target, batch) @ target.embedding.bfloat16().t()).float().argmax(-1)


def names(model):
    return dspark.backbone_names(model)
