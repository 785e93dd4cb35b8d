#include "starling/kernels/cuda/convolution.h"

#include <algorithm>
#include <limits>

namespace starling::cuda {

bool device_conv(const ConvGeometry& g, device::Conv& conv) {
  for (const Shape& shape : {g.x, g.w, g.y, g.stride, g.padding, g.dilation}) {
    for (auto size : shape) {
      if (size > std::numeric_limits<int>::max() / 4) return false;
    }
  }
  if (g.w.numel() > std::numeric_limits<int>::max()) return false;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  conv = {number(g.x[0]), number(g.x[1]), number(g.w[0]), number(g.groups), {}, {}, {}, {}, {}, {}};
  for (int d = 0; d < 3; ++d) {
    conv.x[d] = number(g.x[d + 2]);
    conv.k[d] = number(g.w[d + 2]);
    conv.y[d] = number(g.y[d + 2]);
    conv.stride[d] = number(g.stride[d]);
    conv.padding[d] = number(g.padding[d]);
    conv.dilation[d] = number(g.dilation[d]);
  }
  return true;
}

}  // namespace starling::cuda
