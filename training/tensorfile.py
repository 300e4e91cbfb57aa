"""Reads and writes safetensors files (little endian; float32, bfloat16, integers) with torch tensors."""
import json
import os
import struct

import numpy as np
import torch

TO_NUMPY = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}
NAMES = {torch.float32: "F32", torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.bfloat16: "BF16",
         torch.bool: "BOOL"}


def to_bytes(tensor):
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def save(path, tensors, metadata=None):
    """Writes beside the target and renames, so that readers never see half a file."""
    header, blobs, offset = {"__metadata__": {"format": "pt", **(metadata or {})}}, [], 0
    for name, tensor in tensors.items():
        data = to_bytes(tensor)
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{path}.part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    os.replace(f"{path}.part", path)


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + x for x in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            flat = torch.from_numpy(np.frombuffer(data[begin:end], np.int16).copy()).view(torch.bfloat16)
        else:
            flat = torch.from_numpy(np.frombuffer(data[begin:end], TO_NUMPY[entry["dtype"]]).copy())
        tensors[name] = flat.reshape(entry["shape"])
    return tensors
