#include "starling/ops/def/conv_geometry.h"

#include "starling/base/error.h"

namespace starling {

std::int64_t op::window_count(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                              std::int64_t dilation, const char* who) {
  check(kernel >= 1 && stride >= 1 && padding >= 0 && dilation >= 1,
        "[{}] expected kernel, stride and dilation of at least 1 and padding of at least 0, got {}, {}, {} and {}", who,
        kernel, stride, dilation, padding);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  check(kernel < kMost && stride < kMost && padding < kMost && dilation < kMost && size < kMost,
        "[{}] expected sizes below 2^31, got kernel {}, stride {}, padding {}, dilation {}, input {}", who, kernel,
        stride, padding, dilation, size);
  const auto span = dilation * (kernel - 1) + 1;
  check(span <= size + 2 * padding, "[{}] expected a window of at most {} (input {} with padding {}), got {}", who,
        size + 2 * padding, size, padding, span);
  return (size + 2 * padding - span) / stride + 1;
}

namespace {

const char* axes_of(int dims) { return dims == 1 ? "l" : (dims == 2 ? "h, w" : "d, h, w"); }

Shape with_unit_sizes(const Shape& shape, int dims) {
  Shape five = shape;
  for (int i = dims; i < 3; ++i) five.insert(2, 1);
  return five;
}

Shape three(const Shape& sizes, std::int64_t missing) {
  Shape out = sizes;
  while (out.rank() < 3) out.insert(0, missing);
  return out;
}

}  // namespace

ConvGeometry conv_geometry(int dims, const Shape& x, const Shape& w, const Shape& stride, const Shape& padding,
                           const Shape& dilation, std::int64_t groups, const char* who) {
  check(stride.rank() == dims && padding.rank() == dims && dilation.rank() == dims,
        "[{}] expected stride, padding and dilation of {} numbers, got {}, {} and {}", who, dims, to_string(stride),
        to_string(padding), to_string(dilation));
  check(x.rank() == dims + 2 && w.rank() == dims + 2,
        "[{}] expected x [n, c, {}] and weight [out, c, kernel of as many sizes], got {} and {}", who, axes_of(dims),
        to_string(x), to_string(w));
  for (const Shape* shape : {&x, &w}) {
    for (const std::int64_t size : *shape)
      check(size >= 0, "[{}] expected sizes of 0 or more, got {}", who, to_string(*shape));
  }
  check(groups >= 1 && x[1] % groups == 0 && x[1] / groups == w[1] && w[0] % groups == 0,
        "[{}] expected channels to agree with {} groups, got x {} and weight {}", who, groups, to_string(x),
        to_string(w));
  ConvGeometry g;
  g.groups = groups;
  g.x = with_unit_sizes(x, dims);
  g.w = with_unit_sizes(w, dims);
  g.stride = three(stride, 1);
  g.padding = three(padding, 0);
  g.dilation = three(dilation, 1);
  g.y = {x[0], w[0]};
  for (int i = 0; i < 3; ++i)
    g.y.push_back(op::window_count(g.x[i + 2], g.w[i + 2], g.stride[i], g.padding[i], g.dilation[i], who));
  return g;
}

Shape without_unit_sizes(const Shape& five, int dims) {
  Shape shape = five;
  for (int i = dims; i < 3; ++i) shape.erase(2);
  return shape;
}

Pair window_counts(const Shape& image, const Windows2d& a, const char* who) {
  const int h = image.rank() - 2, w = h + 1;
  return {op::window_count(image[h], a.kernel[0], a.stride[0], a.padding[0], a.dilation[0], who),
          op::window_count(image[w], a.kernel[1], a.stride[1], a.padding[1], a.dilation[1], who)};
}

}  // namespace starling
