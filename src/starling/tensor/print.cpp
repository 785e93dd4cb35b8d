#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {
namespace {

constexpr std::int64_t kMostWhole = 1000;  // elements of a tensor that is printed whole
constexpr std::int64_t kEdge = 3;          // of a larger one, at either end of an axis
constexpr std::size_t kLine = 80;          // columns of a row before it is broken

// Digits that all floats of a tensor are printed with, so that columns line up.
struct FloatStyle {
  bool scientific = false;
  int digits = 0;  // after the point
};

// Fewest digits after the point, up to four, that show every value.
int digits_for(const std::vector<double>& values) {
  int digits = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    for (; digits < 4; ++digits) {
      const double scale = std::pow(10.0, digits);
      if (std::abs(std::round(value * scale) / scale - value) <= 1e-7 * std::max(1.0, std::abs(value))) break;
    }
  }
  return digits;
}

FloatStyle style_for(const std::vector<double>& values) {
  double least = 0;
  double most = 0;
  for (const double value : values) {
    const double size = std::abs(value);
    if (!std::isfinite(value) || size == 0) continue;
    most = std::max(most, size);
    least = least == 0 ? size : std::min(least, size);
  }
  const bool scientific = most >= 1e8 || (least > 0 && least < 1e-4);
  return {scientific, scientific ? 4 : digits_for(values)};
}

// Writes a tensor on the host as nested rows.
class Rows {
 public:
  explicit Rows(const Tensor& tensor) : shape_(tensor.shape()), strides_(tensor.strides()) {
    whole_ = tensor.numel() <= kMostWhole;
    if (tensor.numel() > 0) collect(0, 0);
    dispatch(tensor.dtype(), [&]<class T>() { write_cells<T>(tensor.data<T>()); });
    for (const auto& cell : cells_) width_ = std::max(width_, cell.size());
    next_ = 0;
  }

  std::string text() { return shape_.numel() == 0 ? "[]" : axis_text(0); }

 private:
  bool shown(std::int64_t i, std::int64_t size) const { return whole_ || i < kEdge || i >= size - kEdge; }

  // Offsets of the elements that are printed, in row-major order.
  void collect(int axis, std::int64_t offset) {
    if (axis == shape_.rank()) {
      offsets_.push_back(offset);
      return;
    }
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (!shown(i, shape_[axis])) {
        i = shape_[axis] - kEdge - 1;
        continue;
      }
      collect(axis + 1, offset + i * strides_[axis]);
    }
  }

  template <class T>
  void write_cells(const T* data) {
    if constexpr (std::is_same_v<T, bool>) {
      for (const auto offset : offsets_) cells_.emplace_back(data[offset] ? "true" : "false");
    } else if constexpr (std::is_integral_v<T>) {
      for (const auto offset : offsets_) cells_.push_back(std::to_string(data[offset]));
    } else {
      std::vector<double> values;
      for (const auto offset : offsets_)
        values.push_back(static_cast<double>(static_cast<float_or_double<T>>(data[offset])));
      if (values.size() == 1) {
        cells_.push_back(fmt::format("{:.6g}", values[0]));
        return;
      }
      const FloatStyle style = style_for(values);
      for (const double value : values)
        cells_.push_back(style.scientific ? fmt::format("{:.{}e}", value, style.digits)
                                          : fmt::format("{:.{}f}", value, style.digits));
    }
  }
  template <class T>
  using float_or_double = std::conditional_t<std::is_same_v<T, double>, double, float>;

  std::string axis_text(int axis) {
    if (axis == shape_.rank()) return fmt::format("{:>{}}", cells_[next_++], width_);
    return axis == shape_.rank() - 1 ? row_text(axis) : rows_text(axis);
  }

  // Numbers side by side, broken into lines that begin below the first number.
  std::string row_text(int axis) {
    const std::string indent(static_cast<std::size_t>(axis) + 1, ' ');
    std::string text = "[";
    std::size_t column = indent.size();
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      const bool gap = !shown(i, shape_[axis]);
      const std::string cell = gap ? "…" : axis_text(axis + 1);
      const std::size_t wide = gap ? 1 : cell.size();
      if (i > 0) {
        const bool fits = column + 2 + wide + 1 <= kLine;
        text += fits ? ", " : ",\n" + indent;
        column = fits ? column + 2 : indent.size();
      }
      text += cell;
      column += wide;
      if (gap) i = shape_[axis] - kEdge - 1;
    }
    return text + "]";
  }

  // Rows below each other, matrices apart by an empty line.
  std::string rows_text(int axis) {
    const std::string between =
        "," + std::string(static_cast<std::size_t>(shape_.rank() - axis - 1), '\n') + std::string(axis + 1U, ' ');
    std::string text = "[";
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (i > 0) text += between;
      if (shown(i, shape_[axis])) {
        text += axis_text(axis + 1);
      } else {
        text += "…";
        i = shape_[axis] - kEdge - 1;
      }
    }
    return text + "]";
  }

  Shape shape_;
  Shape strides_;
  bool whole_ = true;
  std::vector<std::int64_t> offsets_;
  std::vector<std::string> cells_;
  std::size_t width_ = 0;
  std::size_t next_ = 0;  // cell to be written
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "(empty)";
  const std::string type = to_string(tensor.type());
  out << type;
  if (tensor.traced()) return out << " (traced)";
  if (tensor.device().kind == DeviceKind::null) return out;
  static_cast<void>(tensor.raw());  // a row-sparse tensor becomes dense
  const Tensor host = to(tensor, kCpu);
  const std::string text = Rows(host).text();
  const bool below = tensor.rank() > 1 || type.size() + 1 + text.size() > kLine;
  return out << (below ? '\n' : ' ') << text;
}

}  // namespace starling
