// The precompiled header of the library (cmake/AdjointModule.cmake). Files still include the headers that they use:
// CUDA files are compiled without it.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/tensor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>
