"""Tests the number of threads that each.py gives to a test."""

import os
import sys
import unittest
from unittest import mock

import each

NAMES = ("OMP_NUM_THREADS", "ADJOINT_NUM_THREADS")


class EachTest(unittest.TestCase):
    def threads(self, count, **environment):
        others = {key: value for key, value in os.environ.items() if key not in NAMES}
        command = [sys.executable, "-c", f"import os; print(*map(os.environ.get, {NAMES}))"]
        with mock.patch.dict(os.environ, {**others, **environment}, clear=True):
            return each.run(command, 60, count)

    def test_cores_are_divided_among_jobs(self):
        self.assertEqual(self.threads(3), (0, "3 3\n"))
        counts = []
        with mock.patch.multiple(each, cores=lambda: 16, about=mock.DEFAULT, names_of=lambda _: ["test"]), mock.patch.object(
            each, "one", side_effect=lambda name, timeout, threads: (counts.append(threads), ("passed", 0.0, ""))[1]
        ), mock.patch("builtins.print"):
            for jobs in ("1", "5", "13", "20"):
                with mock.patch.object(sys, "argv", ["each.py", "--jobs", jobs]), self.assertRaises(SystemExit):
                    each.main()
        self.assertEqual(counts, [16, 3, 1, 1])

    def test_the_user_has_the_say(self):
        self.assertEqual(self.threads(3, OMP_NUM_THREADS="5"), (0, "5 3\n"))
        self.assertEqual(self.threads(3, ADJOINT_NUM_THREADS="7"), (0, "3 7\n"))


if __name__ == "__main__":
    unittest.main()
