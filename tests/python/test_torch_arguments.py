"""The arguments that adjoint.torch accepts, and its errors for others.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY.
"""

import contextlib
import itertools
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

import adjoint.torch as adj


class ArgumentTest(unittest.TestCase):
    def test_mistakes_are_errors(self):
        x, w = torch.ones(1, 2, 5), torch.ones(2, 3, 3)
        for message, call in {
            "must have 3 axes": lambda: adj.conv_transpose1d(x[0, 0], w),
            "must share dtype": lambda: adj.conv_transpose1d(x.double(), w),
            "input channels must equal weight's second axis": lambda: adj.conv1d(x, torch.ones(4, 1, 3)),
            "groups must divide weight's first axis": lambda: adj.conv1d(x, torch.ones(3, 1, 3), groups=2),
            "weight (1, 1, 3) and output (-1,)": lambda: adj.conv1d(x[:, :1], torch.ones(1, 1, 3), dilation=3),
            "padding must be numbers, 'same' or 'valid'": lambda: adj.conv1d(x, torch.ones(4, 2, 3), padding="full"),
            "padding 'same' must have stride 1": lambda: adj.conv1d(x, torch.ones(4, 2, 3), padding="same", stride=2),
            "stride must have one value, or one for each of 1 axes": lambda: adj.conv1d(x, torch.ones(4, 2, 3), stride=(1, 2)),
            "the dtype must be": lambda: adj.conv_transpose1d(x.int(), w.int()),
            "input channels must equal": lambda: adj.conv_transpose1d(x, w.transpose(0, 1)),
            "output_padding must be below": lambda: adj.conv_transpose1d(x, w, output_padding=1),
            "stride and dilation must be positive": lambda: adj.conv_transpose1d(x, w, stride=0),
            "extents must be at least 1": lambda: adj.conv_transpose1d(x, w, padding=4),
            "bias must have shape (3,)": lambda: adj.conv_transpose1d(x, w, torch.ones(2)),
            "precision must be one of": lambda: adj.set_precision("tf16"),
        }.items():
            with self.subTest(message), self.assertRaises(ValueError) as caught:
                call()
            self.assertIn(message, str(caught.exception))

    def test_other_than_tensors_and_integers_are_type_errors(self):
        x, w = torch.ones(1, 2, 5), torch.ones(4, 2, 3)
        for message, call in {
            "conv1d: input must be a tensor; got a list": lambda: adj.conv1d([1.0], w),
            "conv1d: weight must be a tensor; got a NoneType": lambda: adj.conv1d(x, None),
            "conv1d: bias must be a tensor; got a float": lambda: adj.conv1d(x, w, 1.0),
            "conv1d: stride must be an integer or a sequence of integers; got 1.5": lambda: adj.conv1d(x, w, stride=1.5),
            "conv1d: padding must be an integer or a sequence of integers; got None": lambda: adj.conv1d(x, w, padding=None),
        }.items():
            with self.subTest(message), self.assertRaises(TypeError) as caught:
                call()
            self.assertEqual(message, str(caught.exception))

    def test_bools_and_floats_are_no_integers(self):
        x, w = torch.randn(1, 2, 5, 5), torch.randn(2, 2, 3, 3)
        steps, two = "an integer or a sequence of integers", dict(stride=2, dilation=2)
        names = {"stride": steps, "padding": steps, "dilation": steps, "output_padding": steps, "groups": "an integer"}
        for (what, kind), transposed in itertools.product(names.items(), (False, True)):
            if what == "output_padding" and not transposed:
                continue
            name = "conv_transpose2d" if transposed else "conv2d"
            ours = getattr(adj, name)
            # PyTorch rejects most of these; the set differs between versions.
            values = [True, torch.tensor(True), 1.0, (True,), [True], (True, 1), (1.0, 1.0), [1.0], None, (1, 1.0)]
            good = [1] + ([] if what == "groups" else [(1,), [1, 1], (1, True), torch.Size([1, 1])])
            with contextlib.suppress(ImportError):
                import numpy

                values.append(numpy.bool_(True))
                good += [numpy.int64(1)] + ([] if what == "groups" else [(numpy.int32(1), 1)])
            for value in good + values * 2 + good:  # a kept valid problem must not be found by invalid arguments
                others = {} if what != "output_padding" else two
                case = {**others, what: value}
                with self.subTest(name=name, what=what, value=value):
                    if any(value is each for each in good):
                        theirs = getattr(torch.nn.functional, name)(x, w, **{**others, what: 1})
                        torch.testing.assert_close(ours(x, w, **case), theirs)
                        continue
                    with self.assertRaises(TypeError) as caught:
                        ours(x, w, **case)
                    self.assertEqual(str(caught.exception), f"{name}: {what} must be {kind}; got {value!r}")

    def test_bools_with_padding_in_words(self):
        for case in (dict(stride=True), dict(dilation=True), dict(groups=True)):
            with self.assertRaisesRegex(TypeError, f"conv1d: {list(case)[0]} must be an integer"):
                adj.conv1d(torch.randn(1, 1, 5), torch.randn(1, 1, 3), padding="same", **case)

    def test_traces_take_no_bools(self):
        for case in (dict(stride=True), dict(padding=True), dict(dilation=(True,)), dict(groups=True)):
            with self.assertRaisesRegex(TypeError, f"conv1d: {list(case)[0]} must be an integer"):
                torch.jit.trace(lambda x, w: adj.conv1d(x, w, **case), (torch.randn(1, 1, 5), torch.randn(1, 1, 3)))

    def test_integers_of_other_types(self):
        class Two:  # such as numpy.int64
            def __index__(self):
                return 2

        x, w = torch.randn(1, 2, 5), torch.randn(4, 2, 3)
        for stride in (Two(), (Two(),), [Two()]):
            self.assertTrue(torch.equal(adj.conv1d(x, w, stride=stride), adj.conv1d(x, w, stride=2)))
        w = torch.randn(4, 1, 3, requires_grad=True)
        results = [torch.autograd.grad(adj.conv1d(x, w, groups=groups).square().sum(), w) for groups in (Two(), 2)]
        torch.testing.assert_close(*results)

    def test_messages_have_the_callers_shapes(self):
        for x in (torch.ones(5), torch.ones(1, 1, 1, 2, 5)):
            with self.assertRaises(ValueError) as caught:
                adj.conv1d(x, torch.ones(4, 2, 3))
            self.assertIn(f"got input {tuple(x.shape)}, weight (4, 2, 3)", str(caught.exception))

    def test_autocast_makes_no_operands_fit(self):
        x, w = torch.ones(1, 2, 5), torch.ones(4, 2, 3)
        for operands in ((x.long(), w), (x, w.double()), (x, w, torch.ones(4).double())):
            with torch.autocast("cpu", torch.bfloat16), self.assertRaises(ValueError):
                adj.conv1d(*operands)


    def test_modules_take_no_bools(self):
        x = torch.randn(1, 1, 5, 5)
        for kind, what in itertools.product(("Conv2d", "ConvTranspose2d"), ("stride", "padding", "dilation", "groups")):
            mine, reference = (getattr(module, kind)(1, 1, 3, **{what: True}) for module in (adj, torch.nn))
            name = "conv_transpose2d" if "Transpose" in kind else "conv2d"
            with self.subTest(kind=kind, what=what):
                self.assertRaises(TypeError, reference, x)
                with self.assertRaisesRegex(TypeError, f"{name}: {what} must be an integer"):
                    mine(x)


if __name__ == "__main__":
    unittest.main()
