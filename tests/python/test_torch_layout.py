"""adjoint.torch on tensors whose elements are not contiguous: strides, torch.channels_last, lazy negation.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY. They run on the CPU, and on a GPU if PyTorch sees
one.
"""

import functools
import itertools
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

import adjoint.torch as adj
from adjoint.torch import native
from test_torch import DEVICES, KINDS, integers, problems


class LayoutTest(unittest.TestCase):
    def test_strides_unbatched_input_and_no_bias(self):
        for device in DEVICES:
            x = integers(9, 4, 2, dtype=torch.float64, device=device).permute(2, 1, 0)
            w = integers(3, 4, 6, dtype=torch.float64, device=device).permute(1, 2, 0)
            expected = torch.nn.functional.conv_transpose1d(x, w, stride=2)
            torch.testing.assert_close(adj.conv_transpose1d(x, w, stride=2), expected, rtol=0, atol=0)
            torch.testing.assert_close(adj.conv_transpose1d(x[1], w, stride=2), expected[1], rtol=0, atol=0)
            self.assertEqual(adj.conv_transpose1d(x[:0], w).shape, (0, 6, 11))

    def test_lazily_negated_tensors(self):
        # Views that reverse the sign of the elements in memory: contiguous, every second element, and the imaginary
        # part of a conjugated complex tensor, for which PyTorch itself makes such a view.
        def views(t):
            yield torch._neg_view(t)
            yield torch._neg_view(torch.stack((t, t + 1), -1))[..., 0]
            yield torch.complex(t + 2, t).conj().imag

        for device in DEVICES:
            tensors = [
                integers(2, 4, 5, 6, dtype=torch.float64, device=device),
                integers(4, 3, 3, 3, dtype=torch.float64, device=device),
                integers(6, dtype=torch.float64, device=device),
            ]
            seed = integers(2, 6, 7, 8, dtype=torch.float64, device=device)
            case = dict(groups=2)
            for place, view in itertools.product(range(4), range(3)):
                leaves = [t.clone().requires_grad_() for t in tensors]
                results = []
                for function in (adj.conv_transpose2d, torch.nn.functional.conv_transpose2d):
                    inputs, gradient = list(leaves), seed
                    if place < 3:
                        inputs[place] = list(views(inputs[place]))[view]
                        self.assertTrue(inputs[place].is_neg())
                    else:
                        gradient = list(views(seed))[view]
                        self.assertTrue(gradient.is_neg())
                    with torch.no_grad():
                        without = function(*inputs, **case)
                    y = function(*inputs, **case)
                    first = torch.autograd.grad(y, leaves, gradient, create_graph=True)
                    second = torch.autograd.grad([torch._neg_view(g).square().sum() for g in first[:2]], leaves[:2])
                    results.append([without, y, *first, *second])
                with self.subTest(device=device, place=place, view=view):
                    for mine, reference in zip(*results):
                        torch.testing.assert_close(mine, reference, rtol=0, atol=0)

    def test_lazily_negated_parameters_of_a_module(self):
        for kind in KINDS:
            torch.manual_seed(1)
            mine, reference = (getattr(m, kind)(2, 3, 3).double() for m in (adj, torch.nn))
            for name in ("weight", "bias"):
                negated = torch.nn.Parameter(torch._neg_view(getattr(reference, name).detach().clone()))
                self.assertTrue(negated.is_neg())
                setattr(mine, name, negated)
                setattr(reference, name, torch.nn.Parameter(negated.detach().resolve_neg()))
            x = torch.randn(1, 2, *(5,) * len(mine.kernel_size), dtype=torch.float64)
            torch.testing.assert_close(mine(x), reference(x))
            torch.testing.assert_close(mine(x[0]), reference(x[0]))

    def test_gradients_that_do_not_lie_one_after_another(self):
        for device in DEVICES:
            x = integers(2, 4, 5, 6, dtype=torch.float64, device=device)
            w = integers(4, 3, 3, 3, dtype=torch.float64, device=device)
            b = integers(6, dtype=torch.float64, device=device)[::2]
            seed = integers(2, 3, 7, 8, dtype=torch.float64, device=device)
            for seed in (seed[:1, :1, :1, :1].expand_as(seed), seed.to(memory_format=torch.channels_last)):
                results = []
                for function in (adj.conv_transpose2d, torch.nn.functional.conv_transpose2d):
                    inputs = [t.detach().requires_grad_() for t in (x, w, b)]
                    results.append(torch.autograd.grad(function(*inputs), inputs, seed))
                for mine, reference in zip(*results):
                    torch.testing.assert_close(mine, reference, rtol=0, atol=0)

    def test_channels_last_comes_back_so(self):
        for device in DEVICES:
            for ours, theirs, x, w, b, case in problems(device, torch.float64):
                last = native.last_format(x.dim())
                if last is None:
                    continue
                for formats in ((last, None), (None, last), (last, last)):
                    results = []
                    for function in (ours, theirs):
                        if function is theirs and len(x) == 0:
                            formats = (last, None)  # PyTorch 1.13 fails for such a filter without a batch
                        inputs = [t.clone() if f is None else t.contiguous(memory_format=f) for t, f in zip((x, w), formats)]
                        inputs = [t.detach().requires_grad_() for t in (*inputs, b)]
                        y = function(*inputs, **case)
                        seed = torch.arange(y.numel(), dtype=y.dtype, device=device).remainder(7).view_as(y) - 3
                        results.append([y, *torch.autograd.grad(y, inputs, seed.contiguous(memory_format=last))])
                    for mine, reference in zip(*results):
                        torch.testing.assert_close(mine, reference, rtol=0, atol=0)
                    if not any(native.is_channels_last(t) for t in inputs[:2]):  # up to 1 channel: both layouts
                        continue
                    self.assertTrue(results[0][0].is_contiguous(memory_format=last))
                    if native.is_channels_last(results[0][0]):  # one position has both layouts
                        self.assertTrue(results[0][1].is_contiguous(memory_format=last))
                    meta = ours(*(t.to("meta") for t in inputs), **case)
                    self.assertEqual(meta.stride(), results[0][0].stride())

    def test_what_asks_for_channels_last(self):
        # PyTorch's conv2d on the CPU and cuDNN follow suggest_memory_format: the strides of the input or the filter
        # decide, even those of axes of extent 1, and even with gaps.
        last = torch.channels_last

        def inputs_on(device):  # makes views there, because a move to another device closes gaps
            randn = functools.partial(torch.randn, device=device)
            wide = randn(4, 7, 12, 10)
            wide_last = wide.contiguous(memory_format=last)
            return [
                (wide[:2, :4, :6, :5], False), (wide_last[:2, 1:5, :6, :5], True), (wide_last[:2, 1:2], True),
                (wide_last[:2, :4, ::2, ::2], True), (wide_last[::2, :4], True), (wide_last[:2, ::2], False),
                (randn(1, 4, 6, 5).contiguous(memory_format=last).expand(2, -1, -1, -1), False),
                (randn(2, 1, 6, 5).expand(-1, 4, -1, -1), False), (randn(2, 4, 1, 1).expand(-1, -1, 6, 5), False),
                (randn(2, 5, 6, 4).permute(0, 3, 2, 1), False), (randn(2, 4, 5, 6).transpose(2, 3), False),
                (randn(400).as_strided((2, 4, 6, 5), (100, 1, 12, 2)), False),  # channels reach into the next pixel
                (randn(2, 1, 6, 5), False), (randn(2, 1, 6, 5).to(memory_format=last), True),
                (randn(2, 4, 3, 3).to(memory_format=last), True), (randn(0, 4, 6, 5).to(memory_format=last), False),
            ]

        cases = [(device, *each) for device in DEVICES for each in inputs_on(device)]
        for (device, x, asks), kernel, own, out in itertools.product(cases, ((3, 3), (1, 1)), (False, True), (1, 3)):
            for function in (adj.conv2d, adj.conv_transpose2d):
                shape = (out, x.shape[1]) if function is adj.conv2d else (x.shape[1], out)
                w = torch.randn(*shape, *kernel, device=device).to(memory_format=last if own else torch.contiguous_format)
                y = function(x, w)
                asked = asks or (own and w.shape[1:].numel() > 1)  # columns of numbers keep their layout
                expected = torch.empty(y.shape, memory_format=last if asked else torch.contiguous_format)
                with self.subTest(x=(x.shape, x.stride()), w=(w.shape, w.stride()), function=function.__name__):
                    self.assertEqual(y.stride(), expected.stride())
                    meta = [torch.empty_strided(t.shape, t.stride(), device="meta") for t in (x, w)]
                    self.assertEqual(function(*meta).stride(), y.stride())
                    exact = function(x.double().contiguous(), w.double().contiguous())
                    torch.testing.assert_close(y.double(), exact, rtol=1e-4, atol=1e-4)

    def test_gradients_of_slices_lie_as_they_ask_for(self):
        x = torch.randn(2, 4, 6, 5, requires_grad=True)
        w = torch.randn(3, 4, 3, 3, requires_grad=True)
        seed = torch.randn(2, 9, 4, 3).contiguous(memory_format=torch.channels_last)[:, 1:4]
        results = [torch.autograd.grad(module.conv2d(x, w), (x, w), seed) for module in (adj, torch.nn.functional)]
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
        self.assertTrue(results[0][0].is_contiguous(memory_format=torch.channels_last))

    def test_meta_tensors_have_gradients_in_channels_last(self):
        for function, shape in ((adj.conv2d, (6, 4, 3, 3)), (adj.conv_transpose2d, (4, 6, 3, 3))):
            x = torch.empty(2, 4, 7, 6, device="meta").contiguous(memory_format=torch.channels_last).requires_grad_()
            w = torch.empty(shape, device="meta", requires_grad=True)
            y = function(x, w)
            gradients = torch.autograd.grad(y, (x, w), torch.empty_like(y))
            self.assertEqual([g.stride() for g in gradients], [x.stride(), w.stride()])

    def test_what_channels_last_copies(self):
        # Operands and results that have both layouts are read and written in place; others are copied once.
        last = torch.channels_last
        for shape, w, wanted in (
            ((2, 3, 6, 5), (4, 3, 3, 3), (2, 5)),  # input and result; the gradient, the input again, and its gradient
            ((2, 3, 1, 1), (3, 4, 3, 3), (0, 1)),
            ((2, 1, 6, 5), (1, 1, 3, 3), (0, 0)),
            ((2, 3, 1, 1), (3, 3, 1, 1), (0, 0)),
            ((2, 3, 3, 3), (4, 3, 3, 3), (1, 3)),
        ):
            function = adj.conv_transpose2d if shape[2:] == (1, 1) else adj.conv2d
            w = torch.randn(w, requires_grad=True)
            made = {}  # tensors that a call made, which are results or copies
            for memory_format in (torch.contiguous_format, last):
                x = torch.randn(shape).contiguous(memory_format=memory_format).requires_grad_()
                seed = torch.ones_like(function(x, w)).contiguous(memory_format=memory_format)
                for recorded in (False, True):
                    with torch.set_grad_enabled(recorded), torch.autograd.profiler.profile() as profile:
                        y = function(x, w)
                        if recorded:
                            torch.autograd.grad(y, (x, w), seed)
                    counts = {event.key: event.count for event in profile.key_averages()}
                    self.assertNotIn("aten::clone", counts)  # the library copies these
                    made[memory_format, recorded] = counts["aten::empty"]
            copies = [made[last, recorded] - made[torch.contiguous_format, recorded] for recorded in (False, True)]
            with self.subTest(function=function.__name__, input=shape, filter=tuple(w.shape)):
                self.assertEqual(tuple(copies), wanted)

    def test_gpus_read_channels_last_as_it_lies(self):
        # In half precision and with channels that fill 16 bytes neither the forward pass nor a gradient makes copies.
        if "cuda" not in DEVICES or torch.cuda.get_device_capability()[0] != 9:
            self.skipTest("needs a GPU of sm_90")
        kinds = ("conv2d", "conv_transpose2d", "conv3d", "conv_transpose3d")
        for dtype, kind in itertools.product((torch.bfloat16, torch.float16), kinds):
            ours, theirs = (getattr(module, kind) for module in (adj, torch.nn.functional))
            extents = (64, 66) if kind.endswith("2d") else (10, 20, 22)
            channels, taps, stride = ((64, 72), 4, 2) if "transpose" in kind else ((72, 64), 3, 1)
            x = integers(4, 64, *extents, dtype=torch.float64, device="cpu")
            w = integers(*channels, *[taps] * len(extents), dtype=torch.float64, device="cpu")
            case, last = {"stride": stride, "padding": 1}, native.last_format(x.dim())
            exact = [t.requires_grad_() for t in (x, w)]
            y = theirs(*exact, **case)
            seed = torch.arange(y.numel(), dtype=y.dtype).remainder(5).view_as(y) - 2
            wanted = [y, *torch.autograd.grad(y, exact, seed)]
            made = {}
            for memory_format in (torch.contiguous_format, last):
                inputs = [x.detach().to("cuda", dtype, memory_format=memory_format), w.detach().to("cuda", dtype)]
                inputs = [t.requires_grad_() for t in inputs]
                grad = seed.to("cuda", dtype, memory_format=memory_format)
                with torch.autograd.profiler.profile() as profile:
                    y = ours(*inputs, **case)
                    gradients = torch.autograd.grad(y, inputs, grad)
                made[memory_format] = {event.key: event.count for event in profile.key_averages()}["aten::empty"]
                for mine, reference in zip((y, *gradients), wanted):
                    torch.testing.assert_close(mine.cpu(), reference.to(dtype), rtol=0, atol=0)
                self.assertTrue(y.is_contiguous(memory_format=memory_format))
                self.assertTrue(gradients[0].is_contiguous(memory_format=memory_format))
            with self.subTest(dtype=dtype, kind=kind):
                self.assertEqual(made[last], made[torch.contiguous_format])


if __name__ == "__main__":
    unittest.main()
