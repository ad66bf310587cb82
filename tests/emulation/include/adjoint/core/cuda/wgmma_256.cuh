// core/cuda/wgmma_256.cuh for emulator.h: its products are those of every width.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>
