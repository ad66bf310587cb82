"""save_file and load_file of safetensors.torch, for systems without that package."""

import json
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}


def save_file(tensors, path):
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, data = {}, bytearray()
    for name, tensor in tensors.items():
        begin = len(data)
        data += tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def load_file(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensor = torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]])
        if begin < end:
            tensor.copy_(torch.frombuffer(data[begin:end], dtype=tensor.dtype).reshape(tensor.shape))
        tensors[name] = tensor
    return tensors
