#include "starling/data/datasets/scaled_dataset.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"

namespace starling {
namespace {

// Simple loop that the compiler vectorises.
void scale(const std::uint8_t* __restrict from, float* __restrict to, std::int64_t count, float factor, float offset) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * factor + offset;
}

}  // namespace

ScaledDataset::ScaledDataset(std::vector<Tensor> columns, const ByteScale& scale) : rest_(columns) {
  bytes_ = columns.front();
  check(bytes_.dtype() == DType::u8 && bytes_.rank() >= 2, "[dataset] expected samples of bytes to scale, got {}",
        to_string(bytes_.type()));
  check(scale.mean.size() == scale.std.size() && !scale.mean.empty(),
        "[dataset] expected as many means as standard deviations, got {} and {}", scale.mean.size(), scale.std.size());
  const bool each = scale.mean.size() > 1;
  check(!each || static_cast<std::int64_t>(scale.mean.size()) == bytes_.size(1),
        "[dataset] expected one mean or {}, one a channel, got {}", bytes_.size(1), scale.mean.size());
  for (std::size_t c = 0; c < scale.mean.size(); ++c) {
    check(scale.std[c] > 0, "[dataset] expected standard deviations above 0, got {}", scale.std[c]);
    channels_.push_back({.factor = 1 / (255 * scale.std[c]), .offset = -scale.mean[c] / scale.std[c]});
  }
  const std::int64_t sample = bytes_.numel() / std::max<std::int64_t>(bytes_.size(0), 1);
  channel_size_ = sample / static_cast<std::int64_t>(channels_.size());
}

std::vector<TensorType> ScaledDataset::fields() const {
  auto types = rest_.fields();
  types.front().dtype = DType::f32;
  return types;
}

void ScaledDataset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  const std::int64_t sample = channel_size_ * static_cast<std::int64_t>(channels_.size());
  check(!out.empty(), "[dataset] expected tensors to gather into, got none");
  rest_.gather_columns(rows, out, 1);
  if (out[0].dtype() != DType::f32 || !out[0].contiguous() || out[0].device().kind != DeviceKind::cpu ||
      out[0].numel() != sample * static_cast<std::int64_t>(rows.size())) {
    fail("[dataset] expected a dense f32 of {} samples on a CPU to gather into, got {}", rows.size(),
         to_string(out[0].type()));
  }
  const auto* from = bytes_.data<std::uint8_t>();
  auto* to = out[0].data<float>();
  for (auto row : rows) {
    const auto* at = from + row * sample;
    for (const auto& channel : channels_) {
      scale(at, to, channel_size_, channel.factor, channel.offset);
      at += channel_size_;
      to += channel_size_;
    }
  }
}

}  // namespace starling
