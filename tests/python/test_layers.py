"""The layers listed as drawn at random equal those that bench/layers.py draws now."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import layers


class Drawn(unittest.TestCase):
    def test_tables_are_drawn_anew(self):
        for name in layers.DRAWS:
            with self.subTest(name):
                self.assertEqual(layers.draw_named(name), layers.read(name))

    def test_wide_layers_reach_their_ranges(self):
        wide = layers.read("wide")
        channels = [c for layer in wide for c in (layer.in_channels, layer.out_channels)]
        kernels = [k for layer in wide for k in layer.kernel]
        strides = [s for layer in wide for s in layer.stride]
        self.assertTrue(3 <= min(channels) and 512 < max(channels) <= 768)
        self.assertEqual((min(kernels), max(kernels)), (1, 20))
        self.assertEqual(set(strides), set(range(1, 9)))
        self.assertEqual({d for layer in wide for d in layer.dilation}, {1, 2, 3})
        self.assertLessEqual({1, 2, 4}, {layer.groups for layer in wide})
        self.assertTrue(any(layer.groups == layer.in_channels > 4 for layer in wide), "depthwise")
        self.assertTrue(1 <= min(layer.batch for layer in wide) and max(layer.batch for layer in wide) <= 64)
        odd = [extent % 2 for layer in wide for extent in layer.input]
        self.assertGreater(sum(odd) / len(odd), 0.5)


if __name__ == "__main__":
    unittest.main()
