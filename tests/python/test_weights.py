"""Runs the programs of docs/weights.md, whose blocks are parts of this file and of its neighbours."""

import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        from small_safetensors import load_file, save_file

    class Upscaler(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.features = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8),
                                                torch.nn.SiLU())
            self.up = torch.nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)

        def forward(self, x):
            return self.up(self.features(x))


def python_name(name):
    return "up." + name[2:] if name.startswith("3.") else "features." + name


@unittest.skipIf(torch is None, "needs PyTorch")
class Weights(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def test_weights_go_to_adjoint_and_come_back(self):
        folder = self.folder
        model = Upscaler()
        for _ in range(3):
            model(torch.randn(4, 3, 6, 6))  # changes the running statistics
        model.eval()
        x = torch.randn(2, 3, 5, 7)
        save_file(model.state_dict(), folder / "from_python.safetensors")
        save_file({"input": x}, folder / "input.safetensors")
        subprocess.run([os.environ["ADJOINT_WEIGHTS"], str(folder)], check=True)

        output = load_file(folder / "output.safetensors")["output"]
        with torch.no_grad():
            torch.testing.assert_close(output, model(x), rtol=1e-5, atol=1e-5)

        again = Upscaler()
        state = load_file(folder / "to_python.safetensors")
        again.load_state_dict({python_name(name): tensor for name, tensor in state.items()})
        self.assert_same(again, model)

        state = load_file(folder / "checkpoint-1.safetensors")
        state = {name[len("model."):]: tensor for name, tensor in state.items() if name.startswith("model.")}
        again.load_state_dict({python_name(name): tensor for name, tensor in state.items()})
        self.assert_same(again, model)
        kept = load_file(folder / "from_checkpoint.safetensors")
        self.assertEqual({name: tensor.tolist() for name, tensor in kept.items()},
                         {name: tensor.tolist() for name, tensor in state.items()})

    def assert_same(self, one, other):
        for (name, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
            self.assertTrue(torch.equal(a, b), name)

    def test_every_dtype_and_shape_comes_back(self):
        tensors = {str(dtype): torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
                   for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
                                 torch.int32, torch.uint8, torch.bool)}
        tensors.update(scalar=torch.tensor(2.5), none=torch.empty(0, 3))
        save_file(tensors, self.folder / "all.safetensors")
        loaded = load_file(self.folder / "all.safetensors")
        self.assertEqual(set(loaded), set(tensors))
        for name, tensor in tensors.items():
            self.assertEqual(loaded[name].dtype, tensor.dtype)
            self.assertTrue(torch.equal(loaded[name], tensor), name)


if __name__ == "__main__":
    unittest.main()
