#include "starling/ops/def/pool_geometry.h"

#include <algorithm>
#include <cctype>

#include "starling/base/error.h"
#include "starling/ops/api/conv.h"

namespace starling {

std::int64_t PoolAxis::first_tap(std::int64_t window) const {
  const std::int64_t at = start(window);
  return at >= 0 ? 0 : (-at + dilation - 1) / dilation;
}

std::int64_t PoolAxis::end_tap(std::int64_t window) const {
  const std::int64_t room = in - start(window);
  return room <= 0 ? 0 : std::min(kernel, (room + dilation - 1) / dilation);
}

std::int64_t PoolAxis::counted(std::int64_t window, bool include_pad) const {
  if (!include_pad) return end_tap(window) - first_tap(window);
  return std::min(start(window) + kernel, in + padding) - start(window);
}

namespace {

// Entry for one dimension of a list that may be a single number for all.
std::int64_t number(const Shape& list, int axis, int spatial, const char* what, const char* who) {
  if (list.rank() != 1 && list.rank() != spatial) {
    fail("[{}] expected a {} of 1 or {} numbers, got {}", who, what, spatial, to_string(list));
  }
  return list[list.rank() == 1 ? 0 : axis];
}

int spatial_of(const Shape& x, int spatial, const char* who) {
  check_size(x, 1, who);
  const int has = x.rank() - 2;
  check(spatial > 0 ? has == spatial : has >= 1 && has <= 3,
        "[{}] expected x [n, c, …] with {} spatial dimensions, got {}", who,
        spatial > 0 ? std::to_string(spatial) : "1 to 3", to_string(x));
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::int64_t volume = 1;
  for (int i = 2; i < x.rank(); ++i) {
    check(x[i] >= 1 && x[i] < kMost, "[{}] expected spatial sizes in [1, 2^31), got {}", who, to_string(x));
    volume *= x[i];
    check(volume < kMost, "[{}] expected an image of less than 2^31 elements, got {}", who, to_string(x));
  }
  return has;
}

// Place of a spatial dimension among the three axes of a PoolGeometry, of which it fills the last.
std::size_t place_of(int axis, int spatial) {
  return static_cast<std::size_t>(axis) + 3 - static_cast<std::size_t>(spatial);
}

PoolAxis axis_of(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                 bool ceil_mode, const char* who) {
  PoolAxis axis{in, op::window_count(in, kernel, stride, padding, dilation, who), kernel, stride, padding, dilation};
  check(padding <= kernel / 2, "[{}] expected padding of at most half the kernel, got {} for {}", who, padding, kernel);
  check(padding == 0 || dilation <= in,
        "[{}] expected a dilation of at most the image's size {} where it is padded, got {}", who, in, dilation);
  if (!ceil_mode) return axis;
  const std::int64_t rest = in + 2 * padding - dilation * (kernel - 1) - 1;
  axis.out = (rest + stride - 1) / stride + 1;
  if (axis.start(axis.out - 1) >= in) --axis.out;
  return axis;
}

PoolGeometry make(const Shape& x, const Shape& kernel, const Shape& stride, const Shape& padding, const Shape& dilation,
                  bool ceil_mode, int spatial, const char* who) {
  spatial = spatial_of(x, spatial, who);
  PoolGeometry g{x[0] * x[1], {}, {x[0], x[1]}};
  const Shape& steps = stride.empty() ? kernel : stride;
  for (int i = 0; i < spatial; ++i) {
    const PoolAxis axis = axis_of(x[2 + i], number(kernel, i, spatial, "kernel", who),
                                  number(steps, i, spatial, "stride", who), number(padding, i, spatial, "padding", who),
                                  number(dilation, i, spatial, "dilation", who), ceil_mode, who);
    g.axes[place_of(i, spatial)] = axis;
    g.y.push_back(axis.out);
  }
  return g;
}

}  // namespace

PoolGeometry pool_geometry(const Shape& x, const op::MaxPoolAttrs& a, int spatial, const char* who) {
  return make(x, a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode, spatial, who);
}

PoolGeometry pool_geometry(const Shape& x, const op::AvgPoolAttrs& a, int spatial, const char* who) {
  check(a.divisor >= 0, "[{}] expected a divisor of at least 1, or 0 for the number of elements, got {}", who,
        a.divisor);
  return make(x, a.kernel, a.stride, a.padding, {1}, a.ceil_mode, spatial, who);
}

PoolGeometry pool_geometry(const Shape& x, const op::LpPoolAttrs& a, int spatial, const char* who) {
  check(a.p >= 1 && a.p <= 1000, "[{}] expected p in [1, 1000], got {}", who, a.p);
  return make(x, a.kernel, a.stride, {0}, {1}, a.ceil_mode, spatial, who);
}

PoolGeometry adaptive_geometry(const Shape& x, const Shape& size, int spatial, const char* who) {
  spatial = spatial_of(x, spatial, who);
  PoolGeometry g{x[0] * x[1], {}, {x[0], x[1]}};
  for (int i = 0; i < spatial; ++i) {
    const std::int64_t out = number(size, i, spatial, "size", who);
    check(out >= 1 && out < std::int64_t{1} << 31, "[{}] expected sizes in [1, 2^31), got {}", who, to_string(size));
    g.axes[place_of(i, spatial)] = {.in = x[2 + i], .out = out};
    g.y.push_back(out);
  }
  return g;
}

int spatial_dims(const std::string& op_name) {
  const auto at = op_name.find("pool");
  const bool digit = at + 4 < op_name.size() && std::isdigit(static_cast<unsigned char>(op_name[at + 4]));
  return digit ? op_name[at + 4] - '0' : 0;
}

}  // namespace starling
