// The key of everything on which a packed filter depends.
#pragma once

#include <adjoint/core/autograd/kept_forms.h>
#include <adjoint/ops/conv/geometry.h>

namespace adjoint {

inline detail::FormKey& operator<<(detail::FormKey& key, const ConvGeometry& g) {
  key << g.rank << g.batch << g.image_channels << g.feature_channels << g.groups;
  for (const Extent2& extent : {g.image, g.feature, g.kernel, g.stride, g.padding, g.dilation}) {
    key << extent[0] << extent[1];
  }
  return key;
}

}  // namespace adjoint
