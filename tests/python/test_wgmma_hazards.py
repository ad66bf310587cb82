"""Tests that scripts/wgmma_hazards finds operands that some path through the code overwrites, and no others."""
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "wgmma_hazards"
PRODUCT = "HGMMA.64x64x8.F32.TF32 R24, R8, gdesc[UR4], R24, gsb0"


def check(*code):
    """Returns the script's exit code and first line for a function of these instructions, 16 bytes each."""
    listing = ["\t\tFunction : kernel"] + [f"        /*{16 * i:04x}*/ {text} ;" for i, text in enumerate(code)]
    done = subprocess.run([sys.executable, SCRIPT], input="\n".join(listing), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[0]


class WgmmaHazards(unittest.TestCase):
    def test_a_write_behind_the_wait_is_none(self):
        self.assertEqual(check("LDS R8, [R1]", PRODUCT, "WARPGROUP.DEPBAR.LE gsb0, 0x0", "LDS R9, [R1]", "EXIT"),
                         (0, "1 functions with wgmma, 0 with hazards"))

    def test_a_write_before_the_wait_is_one(self):
        for write in ("LDS R11, [R1]", "@P0 IMAD R8, R1, R2, R3", "LDS.64 R10, [R1]", "LDS.128 R8, [R1]"):
            status, line = check(PRODUCT, write, "WARPGROUP.DEPBAR.LE gsb0, 0x0", "EXIT")
            self.assertEqual(status, 1, write)
            self.assertIn("overwrites an operand", line)

    def test_other_registers_and_stores_are_none(self):
        for other in ("LDS R12, [R1]", "LDS.64 R6, [R1]", "STS [R8], R9", "IMAD R24, R8, R9, R10"):
            self.assertEqual(check(PRODUCT, other, "WARPGROUP.DEPBAR.LE gsb0, 0x0", "EXIT")[0], 0, other)

    def test_a_wait_may_leave_the_newest_group(self):
        older, newer = PRODUCT, PRODUCT.replace("R8,", "R16,")
        wait = "WARPGROUP.DEPBAR.LE gsb0, 0x1"
        self.assertEqual(check(older, newer, wait, "LDS R8, [R1]", "EXIT")[0], 0)
        self.assertEqual(check(older, newer, wait, "LDS R16, [R1]", "EXIT")[0], 1)

    def test_an_empty_product_ends_a_group(self):
        empty = "HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0"
        wait = "WARPGROUP.DEPBAR.LE gsb0, 0x1"
        self.assertEqual(check(PRODUCT, empty, wait, "LDS R8, [R1]", "EXIT")[0], 0)

    def test_ways_around_a_loop_are_followed(self):
        # 0: before the loop; 1: its head; 4: back to the head, with products in flight.
        loop = ("LDS R8, [R1]", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "{}", PRODUCT, "@P0 BRA 0x10", "EXIT")
        self.assertEqual(check(*(text.format("LDS R8, [R1]") for text in loop))[0], 0)
        early = ("LDS R8, [R1]", "LDS R9, [R1]", "WARPGROUP.DEPBAR.LE gsb0, 0x0", PRODUCT, "@P0 BRA 0x10", "EXIT")
        self.assertEqual(check(*early)[0], 1)

    def test_a_loop_without_a_wait_ends(self):
        loop = ("LDS R8, [R1]", PRODUCT, "@P0 BRA 0x10", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "EXIT")
        self.assertEqual(check(*loop)[0], 0)
        self.assertEqual(check(*loop[:2], "LDS R8, [R1]", "@P0 BRA 0x10", *loop[3:])[0], 1)

    def test_what_no_way_reaches_is_none(self):
        self.assertEqual(check(PRODUCT, "BRA 0x30", "LDS R8, [R1]", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "EXIT")[0], 0)

    def test_a_table_of_jumps_leads_to_what_follows_it(self):
        cases = (PRODUCT, "BRX R2 -0x20", "BRA 0x50", "LDS R8, [R1]", "BRA 0x50", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "EXIT")
        self.assertEqual(check(*cases)[0], 1)


if __name__ == "__main__":
    unittest.main()
