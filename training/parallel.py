"""Gradients from several single-threaded processes.

A step is cut into pieces that the processes fetch as they become free. On a machine that has other work to do this loses
far less than threads inside every matrix product, which wait for the slowest of them hundreds of times a step.
"""
import queue

import torch
import torch.multiprocessing as multiprocessing


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def work(compute, model, gradients, tasks, results):
    torch.set_num_threads(1)
    for p, g in zip(trained(model), gradients):
        p.grad = g
    while True:
        try:
            piece = tasks.get(timeout=10)
        except queue.Empty:
            if not multiprocessing.parent_process().is_alive():
                return
            continue
        except (ConnectionError, EOFError):  # the parent died while handing over a piece
            return
        if piece is None:
            return
        value, figures = compute(model, *piece)
        value.backward()
        results.put(figures)


class Workers:
    """`compute(model, *piece)` returns a loss and a list of figures; it must be a function a new process can import."""

    def __init__(self, compute, model, count):
        context = multiprocessing.get_context("spawn")
        self.model = model.share_memory()
        self.gradients = [[torch.zeros_like(p).share_memory_() for p in trained(model)] for _ in range(count)]
        self.tasks, self.results = context.Queue(), context.Queue()
        self.processes = [context.Process(target=work, args=(compute, model, g, self.tasks, self.results), daemon=True)
                          for g in self.gradients]
        for process in self.processes:
            process.start()

    def gradient(self, pieces):
        """Sets the mean gradient over the pieces and returns the mean figures."""
        for piece in pieces:
            self.tasks.put(piece)
        figures = [self.results.get() for _ in pieces]
        for i, p in enumerate(trained(self.model)):
            p.grad = sum(g[i] for g in self.gradients) / len(pieces)
            for g in self.gradients:
                g[i].zero_()
        return [sum(f) / len(f) for f in zip(*figures)]

    def close(self):
        for _ in self.processes:
            self.tasks.put(None)
        for process in self.processes:
            process.join()
