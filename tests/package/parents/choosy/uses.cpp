#include <adjoint/adjoint.h>

int main() { return adjoint::Tensor::ones({1}).item<int>() - 1; }
