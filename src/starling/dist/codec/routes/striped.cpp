#include "starling/dist/codec/routes/striped.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace starling::dist {

std::vector<CodedStripe> cut_stripes(std::span<const CodedShape> shapes, int ranks) {
  std::int64_t all = 0;
  for (const CodedShape& shape : shapes) all += shape.values();
  std::vector<CodedStripe> stripes(static_cast<std::size_t>(ranks));
  std::int64_t before = 0;  // values of the lines already shared out
  std::size_t owner = 0;
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const std::int64_t width = shapes[t].width;
    for (std::int64_t line = 0; line < shapes[t].lines && width > 0;) {
      // Stripe o ends with the line that holds its last value, number all · (o + 1) / ranks.
      const std::int64_t end = all * static_cast<std::int64_t>(owner + 1) / ranks;
      const std::int64_t lines = std::min((end - before + width - 1) / width, shapes[t].lines - line);
      if (lines > 0) stripes[owner].push_back({t, line, lines});
      line += std::max<std::int64_t>(lines, 0);
      before += std::max<std::int64_t>(lines, 0) * width;
      if (before >= end && owner + 1 < stripes.size()) ++owner;
    }
  }
  return stripes;
}

// One reduction: where each stripe lies in the scratch memory.
struct StripedCodec::Exchange {
  const StripedCodec& codec;
  std::span<const CodedTensor> tensors;
  std::vector<CodedShape> units{};
  std::vector<CodedStripe> stripes{};
  std::vector<std::int64_t> bytes{};  // wire bytes of each stripe

  std::int64_t total() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }
  std::int64_t before(std::size_t stripe) const {
    return std::accumulate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(stripe), std::int64_t{0});
  }

  // Calls f(shape of the segment, its first value in the tensor, tensor, offset of its wire form).
  template <class F>
  void each(std::size_t stripe, F f) const {
    std::size_t at = 0;
    for (const CodedSegment& segment : stripes[stripe]) {
      const CodedShape shape{segment.lines, units[segment.tensor].width};
      f(shape, segment.begin * shape.width, tensors[segment.tensor], at);
      at += codec.coder_->wire_bytes(shape);
    }
  }
  float* residual(const CodedTensor& tensor, std::int64_t first) const {
    return codec.feedback_ ? tensor.states[0] + first : nullptr;
  }

  void encode(std::size_t stripe, bool sums, std::byte* wire) const {
    each(stripe, [&](const CodedShape& shape, std::int64_t first, const CodedTensor& tensor, std::size_t at) {
      codec.coder_->encode(shape, (sums ? tensor.y : tensor.x) + first, residual(tensor, first), wire + at);
    });
  }
  void decode(std::size_t stripe, const std::byte* wire, bool add) const {
    each(stripe, [&](const CodedShape& shape, std::int64_t first, const CodedTensor& tensor, std::size_t at) {
      if (add)
        codec.coder_->decode_add(shape, wire + at, tensor.y + first);
      else
        codec.coder_->decode(shape, wire + at, tensor.y + first);
    });
  }
  void copy_own(std::size_t stripe) const {
    each(stripe, [&](const CodedShape& shape, std::int64_t first, const CodedTensor& tensor, std::size_t) {
      if (tensor.y != tensor.x) std::copy_n(tensor.x + first, shape.values(), tensor.y + first);
    });
  }
};

CodedShape StripedCodec::unit(const CodedShape& shape) const {
  return coder_->by_line() ? shape : CodedShape{shape.values(), 1};
}

std::vector<CodedShape> StripedCodec::units(std::span<const CodedShape> shapes) const {
  std::vector<CodedShape> all;
  for (const CodedShape& shape : shapes) all.push_back(unit(shape));
  return all;
}

std::size_t StripedCodec::wire_bytes(std::span<const CodedShape> units, const CodedStripe& stripe) const {
  std::size_t bytes = 0;
  for (const CodedSegment& segment : stripe) bytes += coder_->wire_bytes({segment.lines, units[segment.tensor].width});
  return bytes;
}

std::vector<CodecState> StripedCodec::states(const Shape& shape) const {
  if (!feedback_) return {};
  return {{.name = "residual", .shape = shape}};
}

std::size_t StripedCodec::scratch_bytes(std::span<const CodedShape> shapes, int rank, int ranks) const {
  const auto all = units(shapes);
  std::size_t total = 0, own = 0;
  const auto stripes = cut_stripes(all, ranks);
  for (std::size_t s = 0; s < stripes.size(); ++s) {
    const std::size_t bytes = wire_bytes(all, stripes[s]);
    total += bytes;
    if (s == static_cast<std::size_t>(rank)) own = bytes;
  }
  return total + static_cast<std::size_t>(ranks) * own;  // all stripes, and the own one of every rank
}

std::size_t StripedCodec::encode(const CodedTensor& tensor, std::byte* wire) const {
  coder_->encode(tensor.shape, tensor.x, feedback_ ? tensor.states[0] : nullptr, wire);
  return coder_->wire_bytes(tensor.shape);
}

Result<void> StripedCodec::decode(const CodedShape& shape, std::span<const std::byte> wire, std::span<float> y) const {
  const std::size_t bytes = coder_->wire_bytes(shape);
  if (wire.size() != bytes)
    return failure("expected {} bytes of {} lines of {} values, got {}", bytes, shape.lines, shape.width, wire.size());
  coder_->decode(shape, wire.data(), y.data());
  return {};
}

namespace {

constexpr int kPeersAtOnce = 16;  // messages in flight are few, whatever the number of ranks

void add_residuals(std::span<const CodedTensor> tensors) {
  for (const CodedTensor& tensor : tensors) {
    for (std::int64_t i = 0; i < tensor.shape.values(); ++i) {
      tensor.y[i] = tensor.x[i] + (tensor.states.empty() ? 0.0F : tensor.states[0][i]);
      if (!tensor.states.empty()) tensor.states[0][i] = 0;
    }
  }
}

}  // namespace

void StripedCodec::reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
                          std::string_view name) const {
  if (comm.size() == 1) return add_residuals(tensors);
  for (const CodedTensor& tensor : tensors) {
    if (tensor.coded != nullptr) *tensor.coded = static_cast<double>(coder_->wire_bytes(tensor.shape));
  }
  Exchange exchange{*this, tensors};
  for (const CodedTensor& tensor : tensors) exchange.units.push_back(unit(tensor.shape));
  exchange.stripes = cut_stripes(exchange.units, comm.size());
  for (const CodedStripe& stripe : exchange.stripes)
    exchange.bytes.push_back(static_cast<std::int64_t>(wire_bytes(exchange.units, stripe)));
  const auto own = static_cast<std::size_t>(comm.rank());
  std::byte* received = scratch + exchange.total();
  exchange.copy_own(own);
  const auto peer = [&](int distance) { return static_cast<std::size_t>((comm.rank() + distance) % comm.size()); };
  const auto received_from = [&](std::size_t rank) {
    return received + static_cast<std::ptrdiff_t>(rank) * exchange.bytes[own];
  };
  for (int first = 1; first < comm.size(); first += kPeersAtOnce) {
    std::vector<Work> open;
    for (int d = first; d < std::min(first + kPeersAtOnce, comm.size()); ++d) {
      const std::size_t to = peer(d), from = peer(comm.size() - d);
      std::byte* wire = scratch + exchange.before(to);
      open.push_back(
          comm.recv(received_from(from), exchange.bytes[own], DType::u8, static_cast<int>(from), {.name = name}));
      exchange.encode(to, false, wire);
      open.push_back(comm.send(wire, exchange.bytes[to], DType::u8, static_cast<int>(to), {.name = name}));
    }
    for (Work& work : open) work.wait();
  }
  for (std::size_t rank = 0; rank < exchange.stripes.size(); ++rank) {
    if (rank != own) exchange.decode(own, received_from(rank), true);
  }
  std::byte* sum = scratch + exchange.before(own);
  exchange.encode(own, true, sum);
  comm.all_gather(sum, scratch, exchange.bytes, DType::u8, {.name = name}).wait();
  for (std::size_t rank = 0; rank < exchange.stripes.size(); ++rank)
    exchange.decode(rank, scratch + exchange.before(rank), false);
}

}  // namespace starling::dist
