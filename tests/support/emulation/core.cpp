// The functions of core/cuda that operators' .cu files call, on the emulator. In a CUDA build this program has the
// library's own too, and calls these.
#include <cuda_runtime.h>
#include <adjoint/core/cuda/fill.cu>
