// Rules of single functions, and their shared helpers. Internal.
#pragma once

#include <adjoint/nn/stream_program.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace adjoint::nn::detail {

using Ints = std::vector<std::int64_t>;

inline std::int64_t time_of(const Signal& x) { return static_cast<std::int64_t>(x.axis); }
/// The call's first node. Throws Error if it has another type.
const SignalCall::Node& first_node(const SignalCall& call, std::string_view type);
/// Throws Error if an operand but the first depends on the signal.
void check_filter(const SignalCall& call);

void conv_rule(StreamProgram& program, SignalCall& call);
void conv_transpose_rule(StreamProgram& program, SignalCall& call);
void pool_rule(StreamProgram& program, SignalCall& call);

}  // namespace adjoint::nn::detail
