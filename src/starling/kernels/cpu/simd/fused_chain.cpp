#include "starling/kernels/cpu/simd/fused_chain.h"

#include <algorithm>
#include <cstring>

#include "starling/base/error.h"
#include "starling/base/parallel.h"

namespace starling {
namespace {

// Elements of one block. Small, so that the loads of a block overlap with the arithmetic of the one before.
constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kGrain = 8192;
constexpr int kMaxSlots = 32;
constexpr std::size_t kLine = 64;

void repeat_row(std::byte* to, const std::byte* from, std::int64_t row_bytes, std::int64_t times) {
  for (std::int64_t i = 0; i < times; ++i) std::memcpy(to + i * row_bytes, from, static_cast<std::size_t>(row_bytes));
}

template <class T>
void spread_column_as(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t cols) {
  T* out = reinterpret_cast<T*>(to);
  for (std::int64_t r = 0; r < rows; ++r) {
    T value;
    std::memcpy(&value, from + r * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    std::fill_n(out + r * cols, cols, value);
  }
}

void spread_column(std::byte* to, const std::byte* from, int bytes, std::int64_t rows, std::int64_t cols) {
  if (bytes == 1) spread_column_as<std::uint8_t>(to, from, rows, cols);
  if (bytes == 4) spread_column_as<std::uint32_t>(to, from, rows, cols);
  if (bytes == 8) spread_column_as<std::uint64_t>(to, from, rows, cols);
}

}  // namespace

// The elements as blocks. Long rows are cut, short rows are grouped, so that a block is near kBlock elements either
// way.
struct FusedChain::Pass {
  const void* const* inputs;
  void* const* outputs;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t rows_per_block;
  std::int64_t cols_per_block;

  std::int64_t blocks_across() const { return (cols + cols_per_block - 1) / cols_per_block; }
  std::int64_t blocks() const { return (rows + rows_per_block - 1) / rows_per_block * blocks_across(); }
};

FusedChain::FusedChain(Spec spec) : spec_(std::move(spec)) {
  const int inputs = static_cast<int>(spec_.inputs.size());
  check(slots() <= kMaxSlots, "[fused_chain] expected at most {} slots, got {}", kMaxSlots, slots());
  std::vector<bool> written(static_cast<std::size_t>(slots()), false);
  for (int i = 0; i < inputs; ++i) {
    const ChainInput& input = spec_.inputs[static_cast<std::size_t>(i)];
    check(input.bytes == 1 || input.bytes == 4 || input.bytes == 8,
          "[fused_chain] expected elements of 1, 4 or 8 bytes, got {}", input.bytes);
    written[static_cast<std::size_t>(i)] = true;
    flat_ = flat_ && (input.spread == Spread::full || input.spread == Spread::scalar);
  }
  for (const ChainStep& step : spec_.steps) {
    check(step.fn != nullptr, "[fused_chain] expected a function in every step, got null");
    for (const int slot : step.in) {
      check(slot == -1 || (slot >= 0 && slot < slots() && written[static_cast<std::size_t>(slot)]),
            "[fused_chain] expected operands already written, got slot {} of {}", slot, slots());
    }
    check(step.out >= inputs && step.out < slots(), "[fused_chain] expected a temporary or output slot, got {}",
          step.out);
    written[static_cast<std::size_t>(step.out)] = true;
  }
}

int FusedChain::slots() const {
  return static_cast<int>(spec_.inputs.size()) + spec_.temporaries + static_cast<int>(spec_.output_bytes.size());
}

// Row and column inputs of short rows are laid out in full for a block; each gets a place beside the temporaries.
std::size_t FusedChain::thread_bytes() const {
  const std::size_t places = spec_.inputs.size() + static_cast<std::size_t>(spec_.temporaries);
  return places * kBlock * sizeof(double);
}

std::size_t FusedChain::scratch_bytes(int threads) const {
  return static_cast<std::size_t>(std::max(threads, 1)) * thread_bytes() + kLine;
}

void FusedChain::run(const void* const* inputs, void* const* outputs, std::int64_t rows, std::int64_t cols,
                     void* scratch) const {
  if (rows <= 0 || cols <= 0) return;
  if (flat_) cols = rows * cols, rows = 1;
  const std::int64_t grouped = cols > kBlock / 2 ? 1 : kBlock / cols;
  const Pass pass{inputs, outputs, rows, cols, std::min(grouped, rows), std::min(cols, kBlock)};
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch) + kLine - 1) & ~(kLine - 1));
  const std::int64_t blocks = pass.blocks();
  const std::int64_t pieces =
      std::clamp<std::int64_t>(rows * cols / kGrain, 1, std::min<std::int64_t>(num_threads(), blocks));
  if (pieces == 1) return run_piece(pass, 0, blocks, aligned);
  parallel_run(static_cast<int>(pieces), [&](int piece) {
    run_piece(pass, blocks * piece / pieces, blocks * (piece + 1) / pieces,
              aligned + static_cast<std::size_t>(piece) * thread_bytes());
  });
}

void FusedChain::run_piece(const Pass& pass, std::int64_t begin, std::int64_t end, std::byte* scratch) const {
  const std::size_t inputs = spec_.inputs.size();
  const std::size_t first_output = inputs + static_cast<std::size_t>(spec_.temporaries);
  const bool grouped = pass.rows_per_block > 1;
  std::byte* slot[kMaxSlots];
  for (std::size_t t = 0; t < first_output; ++t) slot[t] = scratch + t * kBlock * sizeof(double);
  unsigned scalars = 0;
  for (std::size_t i = 0; i < inputs; ++i) {
    const auto [bytes, spread] = spec_.inputs[i];
    auto* base = static_cast<std::byte*>(const_cast<void*>(pass.inputs[i]));
    if (spread == Spread::scalar || (spread == Spread::column && !grouped)) scalars |= 1u << i;
    if (spread == Spread::scalar) slot[i] = base;
    if (spread == Spread::row && grouped) repeat_row(slot[i], base, pass.cols * bytes, pass.rows_per_block);
  }
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t row = block / pass.blocks_across() * pass.rows_per_block;
    const std::int64_t col = block % pass.blocks_across() * pass.cols_per_block;
    const std::int64_t rows = std::min(pass.rows_per_block, pass.rows - row);
    const std::int64_t cols = std::min(pass.cols_per_block, pass.cols - col);
    const std::int64_t at = row * pass.cols + col;
    for (std::size_t i = 0; i < inputs; ++i) {
      const auto [bytes, spread] = spec_.inputs[i];
      auto* base = static_cast<std::byte*>(const_cast<void*>(pass.inputs[i]));
      if (spread == Spread::full) slot[i] = base + at * bytes;
      if (spread == Spread::row && !grouped) slot[i] = base + col * bytes;
      if (spread == Spread::column && !grouped) slot[i] = base + row * bytes;
      if (spread == Spread::column && grouped) spread_column(slot[i], base + row * bytes, bytes, rows, cols);
    }
    for (std::size_t o = 0; o < spec_.output_bytes.size(); ++o) {
      slot[first_output + o] = static_cast<std::byte*>(pass.outputs[o]) + at * spec_.output_bytes[o];
    }
    run_steps(slot, scalars, rows * cols);
  }
}

void FusedChain::run_steps(std::byte* const* slot, unsigned scalars, std::int64_t n) const {
  for (const ChainStep& step : spec_.steps) {
    const void* in[3] = {};
    unsigned mask = 0;
    for (unsigned k = 0; k < 3; ++k) {
      if (step.in[k] < 0) continue;
      in[k] = slot[step.in[k]];
      mask |= (scalars >> step.in[k] & 1u) << k;
    }
    step.fn(in, mask, slot[step.out], n, step.params.data());
  }
}

}  // namespace starling
