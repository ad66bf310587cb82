"""adjoint.torch under PyTorch's DistributedDataParallel and FSDP2: two processes on the CPU, by gloo.

The tests need PyTorch with torch.distributed, and the shared library in ADJOINT_LIBRARY.
"""

import os
import tempfile
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

import torch.distributed as dist

import adjoint.torch as adj
from test_torch_transforms import both

try:
    from torch.distributed.fsdp import fully_shard
except (ImportError, ValueError):  # PyTorch 1.13's own classes are errors on Python 3.11
    fully_shard = None

WORLD = 2


def data(rank):
    return torch.randn(3, 2, 11, generator=torch.Generator().manual_seed(rank))


def trained(model, batches):
    """Trains for three steps, each on all batches of `batches`."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimiser.zero_grad()
        model(batches).square().mean().backward()
        optimiser.step()
    return model


def in_data_parallel(rank, ours):
    model = trained(torch.nn.parallel.DistributedDataParallel(ours), data(rank)).module
    return dict(model.named_parameters())


def in_shards(rank, ours):
    mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))  # by default FSDP would use GPUs if there are any
    for layer in ours:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    trained(fully_shard(ours, mesh=mesh), data(rank))
    return {name: p.full_tensor() for name, p in ours.named_parameters()}


def process(rank, store, way):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    try:
        theirs, ours = both()
        assert isinstance(ours[0], adj.Conv1d) and isinstance(ours[2], adj.ConvTranspose1d)
        parameters = way(rank, ours)
        trained(theirs, torch.cat([data(r) for r in range(WORLD)]))  # the mean of equally large batches' means
        for name, expected in theirs.named_parameters():
            torch.testing.assert_close(parameters[name].detach(), expected.detach(), rtol=1e-4, atol=1e-5)
    finally:
        dist.destroy_process_group()


@unittest.skipUnless(dist.is_available(), "needs torch.distributed")
class DistributedTest(unittest.TestCase):
    def spawn(self, way):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(process, (os.path.join(folder, "store"), way), nprocs=WORLD)

    def test_data_parallel(self):
        self.spawn(in_data_parallel)

    @unittest.skipUnless(fully_shard, "needs torch.distributed.fsdp.fully_shard")
    def test_shards(self):
        self.spawn(in_shards)


if __name__ == "__main__":
    unittest.main()
