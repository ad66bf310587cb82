// The key of everything on which a packed filter depends.
#pragma once

#include <adjoint/core/autograd/kept_forms.h>
#include <adjoint/ops/conv/geometry.h>

namespace adjoint {

inline detail::FormKey& operator<<(detail::FormKey& key, const ConvGeometry& g) {
  key << g.rank << g.batch << g.image_channels << g.feature_channels << g.groups;
  const auto add = [&](const auto& values) {
    if (g.rank == 3) key << values.d;
    key << values.h << values.w;
  };
  add(g.image), add(g.feature), add(g.kernel), add(g.stride), add(g.padding), add(g.dilation);
  return key;
}

}  // namespace adjoint
