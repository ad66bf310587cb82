"""python -m adjoint.torch build: compiles the C++ extension against the installed PyTorch (adj.backend())."""

import argparse

from adjoint.torch import extension


def main():
    parser = argparse.ArgumentParser(prog="python -m adjoint.torch", description=__doc__)
    parser.add_argument("command", choices=["build"])
    parser.parse_args()
    print(extension.build())


if __name__ == "__main__":
    main()
