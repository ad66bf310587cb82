#include <adjoint/nn/functions.h>

#include <adjoint/core/base/check.h>

namespace adjoint::nn {

ChannelShuffle::ChannelShuffle(std::int64_t groups) : Module("ChannelShuffle"), groups_(groups) {
  ADJOINT_CHECK(groups >= 1, "ChannelShuffle: groups must be at least 1; got {}", groups);
  set_description(fmt::format("groups={}", groups));
}

Tensor ChannelShuffle::operator()(const Tensor& input) const {
  check_not_moved_from("ChannelShuffle");
  return hooked(input, [&](const Tensor& x) {
    ADJOINT_CHECK(x.defined() && x.dim() >= 2 && x.size(1) % groups_ == 0,
                  "ChannelShuffle: groups must divide the channels, axis 1; got {} groups, shape {}", groups_,
                  x.defined() ? to_string(x.shape()) : "of an undefined tensor");
    return x.unflatten(1, {groups_, -1}).transpose(1, 2).flatten(1, 2);
  });
}

}  // namespace adjoint::nn
