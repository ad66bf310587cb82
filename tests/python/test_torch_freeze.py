"""adjoint.torch.freeze: the same bits, filters packed once, changes refused, memory given back.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY.
"""

import concurrent.futures
import copy
import gc
import io
import pickle
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

from torch import nn

import adjoint.torch as adj

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
CHANGED = "weights must not change while their model is frozen"


def network(device="cpu", dtype=torch.float32):
    """Returns a network with every way in which a filter is packed, and fused with the layers after it."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(128, 32, 4, stride=2, padding=1), nn.BatchNorm2d(32),
        nn.Conv2d(32, 1, 7, padding=3),
    )
    model[3].running_var.fill_(2.0)
    model = model.to(device, dtype).eval()
    adj.replace(model)
    return model


def input_of(batch=2, extent=16, device="cpu", dtype=torch.float32):
    torch.manual_seed(batch * 100 + extent)
    return torch.randn(batch, 3, extent, extent).to(device, dtype)


def same_bits(mine, reference):
    return mine.dtype == reference.dtype and torch.equal(mine, reference)


class FreezeTest(unittest.TestCase):
    def setUp(self):
        guard = torch.no_grad()
        guard.__enter__()
        self.addCleanup(guard.__exit__, None, None, None)

    def test_frozen_calls_have_the_same_bits(self):
        for device in DEVICES:
            dtypes = [torch.float32, torch.float64, torch.bfloat16] + [torch.float16] * (device == "cuda")
            for dtype, fuses in ((dtype, fuses) for dtype in dtypes for fuses in (False, True)):
                with self.subTest(device=device, dtype=dtype, fuses=fuses):
                    model = network(device, dtype)
                    if fuses:
                        adj.fuse(model)
                    inputs = [input_of(batch, 16, device, dtype) for batch in (1, 3)]
                    inputs.append(inputs[1].contiguous(memory_format=torch.channels_last))
                    expected = [model(x) for x in inputs]
                    with adj.freeze(model):
                        for _ in range(3):
                            for x, y in zip(inputs, expected):
                                self.assertTrue(same_bits(model(x), y))
                        with torch.inference_mode():
                            self.assertTrue(same_bits(model(inputs[0]), expected[0]))

    def test_every_module_is_frozen(self):
        for kind in (adj.Conv1d, adj.Conv2d, adj.ConvTranspose1d, adj.ConvTranspose2d):
            with self.subTest(kind=kind.__name__):
                torch.manual_seed(0)
                layer = kind(4, 6, 3, padding=1, groups=2).eval()
                x = torch.randn(4, *(9, 8)[: int(kind.__name__[-2])])  # without a batch
                expected = layer(x)
                with adj.freeze(layer) as frozen:
                    self.assertTrue(same_bits(layer(x), expected))
                    self.assertGreater(frozen.kept_bytes(), 0)

    def test_filters_are_packed_once_and_memory_is_given_back(self):
        for device in DEVICES:
            for fuses in (False, True):
                with self.subTest(device=device, fuses=fuses):
                    model, x = network(device), input_of(device=device)
                    if fuses:
                        adj.fuse(model)
                    frozen = adj.freeze(model)
                    self.assertEqual(frozen.kept_bytes(), 0)
                    model(x)
                    kept = frozen.kept_bytes()
                    self.assertGreaterEqual(kept, 128 * 64 * 9 * 4)  # the largest filter, which every kernel packs
                    model(x)
                    self.assertEqual(frozen.kept_bytes(), kept)
                    frozen.unfreeze()
                    self.assertEqual(frozen.kept_bytes(), 0)
                    frozen.unfreeze()  # a second call does nothing

    def test_what_pytorch_does_not_see_is_not_seen(self):
        """Only these counts show that a filter is not packed in every call."""
        for device in DEVICES:
            with self.subTest(device=device):
                model, x = network(device), input_of(device=device)
                before = model(x)
                with adj.freeze(model):
                    model(x)
                    model[2].weight.data.add_(1)  # PyTorch does not count this as a new version
                    self.assertTrue(same_bits(model(x), before))
                self.assertFalse(torch.equal(model(x), before))

    def test_of_many_shapes_the_first_are_kept(self):
        layer = adj.Conv2d(2, 3, 3).eval()
        with adj.freeze(layer) as frozen:
            for extent in range(3, 20):
                x = torch.ones(1, 2, extent, extent)
                self.assertTrue(same_bits(layer(x), adj.conv2d(x, layer.weight.clone(), layer.bias)))
            kept = frozen.kept_bytes()
            layer(torch.ones(1, 2, 30, 30))
            self.assertEqual(frozen.kept_bytes(), kept)

    def test_changes_are_refused_until_it_ends(self):
        def step(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            with torch.enable_grad():
                model(input_of()).sum().backward()
            optimizer.step()

        changes = {
            "in place": lambda model: model[2].weight.mul_(2),
            "load_state_dict": lambda model: model.load_state_dict(network().state_dict()),
            "to": lambda model: model.double().float(),
            "data": lambda model: setattr(model[2].weight, "data", model[2].weight.data.clone()),
            "optimiser": step,
        }
        for fuses in (False, True):
            for name, change in changes.items():
                with self.subTest(change=name, fuses=fuses):
                    model, x = network(), input_of()
                    if fuses:
                        adj.fuse(model)
                    with adj.freeze(model) as frozen:
                        model(x)
                        change(model)
                        with self.assertRaisesRegex(RuntimeError, CHANGED + ".*unfreeze it first"):
                            model(x)
                        with self.assertRaisesRegex(RuntimeError, CHANGED):
                            adj.freeze(model)
                        frozen.unfreeze()
                        after = model(x)
                    fresh = network()
                    fresh.load_state_dict(model.state_dict())
                    torch.testing.assert_close(after, fresh(x), rtol=1e-4, atol=1e-5)

    def test_a_folded_norm_may_change(self):
        model, x = network(), input_of()
        adj.fuse(model)
        with adj.freeze(model) as frozen:
            before = model(x)
            kept = frozen.kept_bytes()
            model[3].running_var.mul_(4)
            plain = network()
            plain.load_state_dict(model.state_dict())
            torch.testing.assert_close(model(x), plain(x), rtol=1e-4, atol=1e-5)
            self.assertFalse(torch.equal(model(x), before))
            self.assertEqual(frozen.kept_bytes(), kept)  # only the newest fold counts

    def test_gradients_are_as_ever(self):
        model, x = network(), input_of().requires_grad_()
        with torch.enable_grad():
            leaves = (x, *model.parameters())
            expected = torch.autograd.grad(model(x).square().sum(), leaves)
            with adj.freeze(model) as frozen:
                gradients = torch.autograd.grad(model(x).square().sum(), leaves)
                self.assertEqual(frozen.kept_bytes(), 0)
        for mine, reference in zip(gradients, expected):
            self.assertTrue(same_bits(mine, reference))

    def test_who_is_to_see_a_call_sees_it(self):
        layer, x = adj.Conv2d(2, 3, 3).eval(), torch.randn(1, 2, 5, 5)
        with adj.freeze(layer) as frozen:
            with torch.autocast("cpu", torch.bfloat16):
                self.assertEqual(layer(x).dtype, torch.bfloat16)
            traced = torch.jit.trace(layer, x, check_trace=False)
            self.assertIn("adjoint::conv", str(traced.graph))
            self.assertEqual(frozen.kept_bytes(), 0)
            self.assertTrue(same_bits(traced(x), layer(x)))
            with self.assertRaisesRegex(ValueError, "conv2d: .*channels"):
                layer(torch.randn(1, 4, 5, 5))

    @unittest.skipUnless(hasattr(torch, "compile"), "needs torch.compile")
    def test_compilers_see_a_call(self):
        model, x = network(), input_of()
        expected = model(x)
        with adj.freeze(model) as frozen:
            compiled = torch.compile(model, fullgraph=True, backend="eager")
            self.assertTrue(same_bits(compiled(x), expected))
            self.assertEqual(frozen.kept_bytes(), 0)
        self.assertTrue(same_bits(compiled(x), expected))

    def test_copies_pickles_and_assigned_weights_are_not_frozen(self):
        model, x = network(), input_of()
        adj.fuse(model)
        frozen = adj.freeze(model)
        before = model(x)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            self.assertTrue(same_bits(copied(x), before))
            copied[2].weight.zero_()
            copied(x)
        self.assertTrue(same_bits(model(x), before))
        model[0].weight = nn.Parameter(torch.zeros_like(model[0].weight))
        changed = model(x)
        self.assertFalse(torch.equal(changed, before))
        model[0].weight.fill_(1.0)
        self.assertFalse(torch.equal(model(x), changed))
        for copying in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "freeze the copy"):
                copying(frozen)

    def test_what_two_hold_stays_frozen_until_both_end(self):
        layer, x = adj.Conv1d(2, 3, 3).eval(), torch.randn(1, 2, 5)
        first, second = adj.freeze(layer), adj.freeze(layer)
        first.unfreeze()
        layer(x)
        self.assertGreater(second.kept_bytes(), 0)
        layer.weight.mul_(2)
        with self.assertRaisesRegex(RuntimeError, CHANGED):
            layer(x)
        del second
        gc.collect()
        layer(x)

    def test_reparametrised_and_foreign_layers_are_left(self):
        model = nn.Sequential(nn.utils.weight_norm(nn.Conv1d(2, 3, 3)), nn.Linear(3, 2)).eval()
        adj.replace(model)
        x = torch.randn(1, 2, 5)
        with adj.freeze(model) as frozen:
            model[0](x)
            model[0].weight_g.mul_(2)
            model[0](x)
            self.assertEqual(frozen.kept_bytes(), 0)

    def test_threads_may_compute_at_once(self):
        for device in DEVICES:
            model, x = network(device), input_of(device=device)
            adj.fuse(model)
            expected = model(x)

            def call(frozen):
                with torch.no_grad():
                    results = [model(x) for _ in range(5)]
                    frozen.unfreeze()  # while other threads call
                    return results + [model(x)]

            with adj.freeze(model) as frozen, concurrent.futures.ThreadPoolExecutor(4) as pool:
                for results in pool.map(call, [frozen] * 4):
                    self.assertTrue(all(same_bits(y, expected) for y in results))

    def test_training_modules_are_refused_by_name(self):
        model = network().train()
        with self.assertRaisesRegex(ValueError, "freeze: the model must be in eval mode; got Sequential in training"):
            adj.freeze(model)
        model.eval()[3].train()
        with self.assertRaisesRegex(ValueError, "got '3' in training mode"):
            adj.freeze(model)


@unittest.skipUnless(torch.cuda.is_available(), "no CUDA device")
class FreezeCudaTest(unittest.TestCase):
    def test_filters_are_packed_once_a_stream(self):
        model, x = network("cuda"), input_of(device="cuda")
        with torch.no_grad(), adj.freeze(model) as frozen:
            expected = model(x)
            kept = frozen.kept_bytes()
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                again = model(x)
            torch.cuda.synchronize()
            self.assertTrue(same_bits(again, expected))
            self.assertEqual(frozen.kept_bytes(), 2 * kept)

    def test_tf32_keeps_its_bits(self):
        self.addCleanup(adj.set_precision, adj.get_precision())
        model, x = network("cuda"), input_of(device="cuda")
        with torch.no_grad(), adj.freeze(model):
            exact = model(x)
            adj.set_precision("tf32")
            rounded = copy.deepcopy(model)(x)  # the copy is not frozen
            for _ in range(2):
                self.assertTrue(same_bits(model(x), rounded))
            adj.set_precision("float32")
            self.assertTrue(same_bits(model(x), exact))

    def test_replayed_graphs_pack_as_ever(self):
        model, x = network("cuda"), input_of(device="cuda")
        with torch.no_grad():
            expected = model(x)
            frozen = adj.freeze(model)
            model(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = model(x)
            frozen.unfreeze()
            model[0].weight.mul_(2)
            graph.replay()
            changed = model(x)
            torch.cuda.synchronize()
            self.assertTrue(same_bits(y, changed))
            self.assertFalse(torch.equal(y, expected))


if __name__ == "__main__":
    unittest.main()
