// What operators' .cu files call of core/cuda, on the emulator.
#include <cuda_runtime.h>
#include <adjoint/core/cuda/fill.cu>
