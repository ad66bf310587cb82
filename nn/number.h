// Constructors with PyTorch's positional numbers, besides those with options.
#pragma once

#include <cstdint>

namespace adjoint::nn::detail {

/// A type that {} could also initialise besides a number: a deleted constructor that takes it keeps LeakyReLU({}) from
/// meaning 0.
enum class NoNumber : std::uint8_t {};

}  // namespace adjoint::nn::detail
