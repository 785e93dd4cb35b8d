#include "starling/kernels/cpu/fused/fused_runner.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"

namespace starling::kernels {
namespace {

using StorageClass = FusedSchedule::StorageClass;

// Elements per block: several blocks stay in L1 together.
constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kGrain = 8192;
// Size from which results bypass the caches: they would be evicted before being read.
constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;  // per thread

template <class T>
void spread_as(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t cols, std::int64_t row,
               std::int64_t col) {
  T* out = reinterpret_cast<T*>(to);
  for (std::int64_t r = 0; r < rows; ++r, from += row, out += cols) {
    if (col == static_cast<std::int64_t>(sizeof(T))) {
      std::memcpy(out, from, static_cast<std::size_t>(cols) * sizeof(T));
      continue;
    }
    T value;
    if (col == 0) {
      std::memcpy(&value, from, sizeof(T));
      std::fill_n(out, cols, value);
      continue;
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      std::memcpy(&value, from + c * col, sizeof(T));
      out[c] = value;
    }
  }
}

// Gathers rows × cols elements, `row` and `col` bytes apart, into contiguous memory.
void spread(std::byte* to, const std::byte* from, int bytes, std::int64_t rows, std::int64_t cols, std::int64_t row,
            std::int64_t col) {
  if (bytes == 1) spread_as<std::uint8_t>(to, from, rows, cols, row, col);
  if (bytes == 4) spread_as<std::uint32_t>(to, from, rows, cols, row, col);
  if (bytes == 8) spread_as<std::uint64_t>(to, from, rows, cols, row, col);
}

void store(bool f64, std::byte* to, std::int64_t i, double value) {
  if (f64)
    reinterpret_cast<double*>(to)[i] = value;
  else
    reinterpret_cast<float*>(to)[i] = static_cast<float>(value);
}

}  // namespace

FusedRunner::FusedRunner(FusedGrid grid, FusedSchedule schedule, int threads)
    : grid_(std::move(grid)), schedule_(std::move(schedule)), threads_(std::max(threads, 1)) {
  const std::int64_t rows = grid_.rows(), line = std::max<std::int64_t>(grid_.rows_in_line(), 1);
  bool by_rows = false;
  for (const auto& reduction : grid_.reductions) by_rows = by_rows || reduction.of_rows();
  long_rows_ = grid_.cols > kBlock / 2;
  cut_ = long_rows_ && schedule_.sweeps.size() == 1 &&
         (!by_rows || rows < std::min<std::int64_t>(4 * threads_, kBlock + 1));
  tile_rows_ = long_rows_ ? 1 : std::min(kBlock / std::max<std::int64_t>(grid_.cols, 1), line);
  tiles_in_line_ = (line + tile_rows_ - 1) / tile_rows_;
  blocks_across_ = cut_ ? (grid_.cols + kBlock - 1) / kBlock : 1;

  std::int64_t totals = 0;
  for (const auto& reduction : grid_.reductions) {
    const bool direct = reduction.of_rows() && !cut_;
    totals_.push_back(direct ? -1 : totals);
    if (!direct) totals += reduction.kept * (reduction.over_cols ? 1 : grid_.cols);
  }
  const auto bytes = static_cast<std::size_t>(schedule_.widest);
  slot_bytes_ = kBlock * bytes;
  buffer_bytes_ = long_rows_ ? round_up(static_cast<std::size_t>(grid_.cols) * bytes) : slot_bytes_;
  std::size_t at = static_cast<std::size_t>(schedule_.temporaries) * slot_bytes_;
  const auto take = [&](std::size_t& place, std::size_t size) {
    place = at;
    at += round_up(size);
  };
  take(spreads_, schedule_.values.size() * slot_bytes_);
  take(stages_, schedule_.values.size() * slot_bytes_);
  take(buffers_, static_cast<std::size_t>(schedule_.buffers) * buffer_bytes_);
  take(rows_, schedule_.values.size() * slot_bytes_);
  take(row_totals_, grid_.reductions.size() * kBlock * sizeof(double));
  take(thread_totals_, static_cast<std::size_t>(totals) * sizeof(double));
  thread_bytes_ = at;
}

// Work of one thread on its share of the tiles.
class FusedWorker {
 public:
  FusedWorker(const FusedRunner& runner, void* const* in, void* const* out, std::byte* scratch, bool streams)
      : r_(runner), s_(runner.schedule_), g_(runner.grid_), in_(in), out_(out), scratch_(scratch), streams_(streams) {
    for (std::size_t v = 0; v < s_.values.size(); ++v) {
      const auto& value = s_.values[v];
      if (value.storage == StorageClass::temporary)
        at_[v] = scratch_ + static_cast<std::size_t>(value.slot) * r_.slot_bytes_;
      if (value.storage == StorageClass::row) row_at_[v] = scratch_ + r_.rows_ + v * r_.slot_bytes_;
      streamed_[v] = streams_ && value.storage == StorageClass::output && !value.later && value.bytes > 1;
      if (streamed_[v]) at_[v] = scratch_ + r_.stages_ + v * r_.slot_bytes_;
    }
    for (std::size_t f = 0; f < s_.folds.size(); ++f) {
      const auto i = static_cast<std::size_t>(s_.folds[f].reduction);
      const auto& reduction = g_.reductions[i];
      if (r_.totals_[i] >= 0)
        std::fill_n(totals(i), reduction.kept * (reduction.over_cols ? 1 : g_.cols), s_.folds[f].fns.identity);
    }
  }

  double* totals(std::size_t reduction) const {
    return reinterpret_cast<double*>(scratch_ + r_.thread_totals_) + r_.totals_[reduction];
  }

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t tile = unit / r_.blocks_across_, block = unit % r_.blocks_across_;
      if (tile != tile_) enter(tile);
      const std::int64_t first = block * kBlock;
      const std::int64_t end_col = r_.cut_ ? std::min(first + kBlock, g_.cols) : g_.cols;
      for (const auto& sweep : s_.sweeps) run_sweep(sweep, first, end_col);
    }
    if (streams_) finish_streams();
  }

  // Runs the steps on rows that threads shared, after their totals were joined, all rows at once.
  void finish_rows(std::byte* const* results) {
    height_ = g_.rows();
    row_ = 0;
    for (std::size_t v = 0; v < s_.values.size(); ++v) {
      if (s_.values[v].storage == StorageClass::row) place_row(v);
    }
    for (const auto& fold : s_.folds) {
      const auto v = static_cast<std::size_t>(g_.reductions[static_cast<std::size_t>(fold.reduction)].value);
      if (s_.values[v].storage == StorageClass::row) row_at_[v] = results[fold.reduction];
    }
    for (std::size_t k = 0; k < g_.operands.size(); ++k) {
      if (!s_.values[k].read_row) continue;
      row_at_[k] = scratch_ + r_.rows_ + k * r_.slot_bytes_;
      row_scalar_[k] = false;
      for (std::int64_t row = 0; row < height_; ++row) {
        index(row);
        std::memcpy(row_at_[k] + row * g_.operands[k].bytes, base(k), static_cast<std::size_t>(g_.operands[k].bytes));
      }
    }
    for (const auto& sweep : s_.sweeps) {
      for (const auto& call : sweep.row_calls) run_row_call(call);
    }
  }

 private:
  void index(std::int64_t row) {
    for (int d = g_.outer.rank() - 1; d >= 0; --d) {
      index_[static_cast<std::size_t>(d)] = row % g_.outer[d];
      row /= g_.outer[d];
    }
  }
  std::int64_t along(const Shape& strides) const {
    std::int64_t at = 0;
    for (int d = 0; d < strides.rank(); ++d) at += index_[static_cast<std::size_t>(d)] * strides[d];
    return at;
  }
  std::byte* base(std::size_t k) const { return static_cast<std::byte*>(in_[k]) + along(g_.operands[k].outer); }

  void place_row(std::size_t v) {
    const auto& value = s_.values[v];
    if (value.output >= 0) row_at_[v] = static_cast<std::byte*>(out_[value.output]) + row_ * value.bytes;
  }

  // Enters a new tile: base addresses of operands, and inputs of the steps on rows.
  void enter(std::int64_t tile) {
    tile_ = tile;
    const std::int64_t line = tile / r_.tiles_in_line_, in_line = tile % r_.tiles_in_line_ * r_.tile_rows_;
    const std::int64_t line_rows = g_.rows_in_line();
    row_ = line * line_rows + in_line;
    height_ = std::min(r_.tile_rows_, line_rows - in_line);
    index(row_);
    for (std::size_t k = 0; k < g_.operands.size(); ++k) enter_operand(k);
    for (std::size_t v = g_.operands.size(); v < s_.values.size(); ++v) {
      if (s_.values[v].storage == StorageClass::row) place_row(v);
    }
    for (std::size_t i = 0; i < g_.reductions.size(); ++i) kept_[i] = along(g_.reductions[i].strides);
  }

  void enter_operand(std::size_t k) {
    const auto& operand = g_.operands[k];
    const auto& value = s_.values[k];
    base_[k] = base(k);
    if (value.read_row) {
      row_scalar_[k] = operand.row == 0 || height_ == 1;
      row_at_[k] = base_[k];
      if (!row_scalar_[k] && operand.row != operand.bytes) {
        row_at_[k] = scratch_ + r_.rows_ + k * r_.slot_bytes_;
        spread(row_at_[k], base_[k], operand.bytes, height_, 1, operand.row, 0);
      }
    }
    if (!value.read_full) return;
    scalar_[k] = operand.col == 0 && (operand.row == 0 || r_.long_rows_) && !value.folded;
    const bool in_order = r_.long_rows_ || height_ == 1 || operand.row == g_.cols * operand.bytes;
    direct_[k] = (operand.col == operand.bytes || g_.cols == 1) && in_order;
    if (scalar_[k]) at_[k] = base_[k];
    if (scalar_[k] || direct_[k]) return;
    std::byte* slot = scratch_ + r_.spreads_ + k * r_.slot_bytes_;
    // A row shared by all tiles is broadcast once.
    const bool same = at_[k] == slot && shared_[k] == base_[k] && height_ <= shared_rows_[k] && operand.row == 0;
    at_[k] = slot;
    if (same || r_.long_rows_) return;
    spread(slot, base_[k], operand.bytes, height_, g_.cols, operand.row, operand.col);
    shared_[k] = base_[k];
    shared_rows_[k] = height_;
  }

  void run_sweep(const FusedSchedule::Sweep& sweep, std::int64_t first, std::int64_t end_col) {
    const bool leads = &sweep == s_.sweeps.data();
    for (int f : sweep.folds) {
      const auto& fold = s_.folds[static_cast<std::size_t>(f)];
      if (r_.totals_[static_cast<std::size_t>(fold.reduction)] < 0)
        std::fill_n(row_totals(fold), height_, fold.fns.identity);
    }
    if (r_.long_rows_) {
      for (std::int64_t col = first; col < end_col; col += kBlock)
        run_block(sweep, col, std::min(kBlock, end_col - col), leads);
    } else if (g_.cols > 0) {
      run_block(sweep, 0, height_ * g_.cols, leads);
    }
    finish(sweep);
  }

  void run_block(const FusedSchedule::Sweep& sweep, std::int64_t col, std::int64_t n, bool leads) {
    for (std::size_t k = 0; k < g_.operands.size(); ++k) {
      if (!s_.values[k].read_full || scalar_[k]) continue;
      const auto& operand = g_.operands[k];
      if (direct_[k]) {
        at_[k] = base_[k] + col * operand.bytes;
        if (leads) ask_ahead(at_[k], n * operand.bytes);
      } else if (r_.long_rows_) {
        spread(at_[k], base_[k] + col * operand.col, operand.bytes, 1, n, 0, operand.col);
      }
    }
    for (std::size_t v = g_.operands.size(); v < s_.values.size(); ++v) {
      const auto& value = s_.values[v];
      if (value.storage == StorageClass::buffer)
        at_[v] = scratch_ + r_.buffers_ + static_cast<std::size_t>(value.slot) * r_.buffer_bytes_ + col * value.bytes;
      if (value.storage == StorageClass::output && !streamed_[v]) at_[v] = output(v, col);
    }
    for (const auto& call : sweep.calls) {
      call.run.empty() ? run_call(call, n) : run_steps(call, n);
      const auto v = static_cast<std::size_t>(call.out);
      if (streamed_[v]) stream_bytes(at_[v], output(v, col), n * s_.values[v].bytes);
    }
    for (int f : sweep.folds) {
      const auto& fold = s_.folds[static_cast<std::size_t>(f)];
      if (!fold.on_the_way || !r_.long_rows_) fold_block(fold, col, n);
    }
  }

  std::byte* output(std::size_t v, std::int64_t col) const {
    const auto& value = s_.values[v];
    return static_cast<std::byte*>(out_[value.output]) + (row_ * g_.cols + col) * value.bytes;
  }

  // Prefetches ahead: when arithmetic is as slow as memory, the processor does not run ahead far enough by itself.
  static void ask_ahead(const std::byte* p, std::int64_t bytes) {
    constexpr std::int64_t kAhead = 4096;
    for (std::int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(p + kAhead + i);
  }

  void run_call(const FusedSchedule::Call& call, std::int64_t n) const {
    const void* in[3] = {};
    unsigned mask = 0;
    for (unsigned k = 0; k < 3; ++k) {
      if (call.in[k] < 0) continue;
      const auto v = static_cast<std::size_t>(call.in[k]);
      in[k] = at_[v];
      mask |= (scalar_[v] ? 1u : 0u) << k;
    }
    std::byte* out = at_[static_cast<std::size_t>(call.out)];
    if (call.fn) return call.fn(in, mask, out, n, call.params.data());
    const int bytes = s_.values[static_cast<std::size_t>(call.out)].bytes;
    spread(out, static_cast<const std::byte*>(in[0]), bytes, 1, n, 0, mask ? 0 : bytes);
  }

  void run_steps(const FusedSchedule::Call& call, std::int64_t n) const {
    RunStep steps[kMostRunSteps];
    for (std::size_t s = 0; s < call.run.size(); ++s) {
      const auto [op, operand] = call.run[s];
      const auto v = static_cast<std::size_t>(operand);
      steps[s] = {op, operand >= 0 && scalar_[v], operand >= 0 ? at_[v] : nullptr};
    }
    const auto first = static_cast<std::size_t>(call.in[0]);
    const bool folds = call.fold >= 0 && r_.long_rows_;
    void* out = call.stores || !folds ? at_[static_cast<std::size_t>(call.out)] : nullptr;
    const auto* fold = folds ? &s_.folds[static_cast<std::size_t>(call.fold)] : nullptr;
    const double made = call.run_fn({at_[first], scalar_[first], steps, static_cast<int>(call.run.size()), out, n,
                                     folds, folds ? fold->op : FoldOp::sum});
    if (!folds) return;
    double* total = row_total(*fold);
    *total = fold->fns.join(*total, made);
  }

  // Total that a reduction over the columns of the current row adds to.
  double* row_total(const FusedSchedule::Fold& fold) const {
    const auto i = static_cast<std::size_t>(fold.reduction);
    return r_.totals_[i] < 0 ? row_totals(fold) : totals(i) + kept_[i];
  }

  double* row_totals(const FusedSchedule::Fold& fold) const {
    return reinterpret_cast<double*>(scratch_ + r_.row_totals_) + fold.reduction * kBlock;
  }

  void fold_block(const FusedSchedule::Fold& fold, std::int64_t col, std::int64_t n) const {
    const auto i = static_cast<std::size_t>(fold.reduction);
    const auto& reduction = g_.reductions[i];
    const std::byte* x = at_[static_cast<std::size_t>(fold.in)];
    const bool direct = r_.totals_[i] < 0;
    const std::int64_t step = direct ? 1 : reduction.strides.empty() ? 0 : reduction.strides.back();
    if (reduction.over_cols) {
      double* total = row_total(fold);
      if (r_.long_rows_)
        *total = fold.fns.join(*total, fold.fns.run(x, n));
      else
        fold.fns.rows(x, height_, g_.cols, total, step);
      return;
    }
    double* total = totals(i) + kept_[i] * g_.cols + col;
    if (r_.long_rows_) return fold.fns.columns(x, 1, n, total);
    if (step == 0) return fold.fns.columns(x, height_, g_.cols, total);
    const std::int64_t row_bytes = g_.cols * s_.values[static_cast<std::size_t>(fold.in)].bytes;
    for (std::int64_t r = 0; r < height_; ++r)
      fold.fns.columns(x + r * row_bytes, 1, g_.cols, total + r * step * g_.cols);
  }

  // Ends a sweep: finishes its reductions of rows, runs the steps on their results, and broadcasts them for the next.
  void finish(const FusedSchedule::Sweep& sweep) {
    for (int f : sweep.folds) {
      const auto& fold = s_.folds[static_cast<std::size_t>(f)];
      const auto i = static_cast<std::size_t>(fold.reduction);
      if (r_.totals_[i] >= 0) continue;
      const auto v = static_cast<std::size_t>(g_.reductions[i].value);
      const double* total = row_totals(fold);
      for (std::int64_t r = 0; r < height_; ++r) store(fold.f64, row_at_[v], r, total[r] * fold.scale);
      show(v);
    }
    if (r_.cut_) return;
    for (const auto& call : sweep.row_calls) {
      run_row_call(call);
      show(static_cast<std::size_t>(call.out));
    }
  }

  void run_row_call(const FusedSchedule::Call& call) {
    const void* in[3] = {};
    unsigned mask = 0;
    for (unsigned k = 0; k < 3; ++k) {
      if (call.in[k] < 0) continue;
      const auto v = static_cast<std::size_t>(call.in[k]);
      in[k] = row_at_[v];
      mask |= (row_scalar_[v] ? 1u : 0u) << k;
    }
    call.fn(in, mask, row_at_[static_cast<std::size_t>(call.out)], height_, call.params.data());
  }

  // Broadcasts a row value for steps over all columns.
  void show(std::size_t v) {
    const auto& value = s_.values[v];
    if (!value.read_full) return;
    scalar_[v] = r_.long_rows_;
    at_[v] = r_.long_rows_ ? row_at_[v] : scratch_ + r_.spreads_ + v * r_.slot_bytes_;
    if (!r_.long_rows_) spread(at_[v], row_at_[v], value.bytes, height_, g_.cols, value.bytes, 0);
  }

  static constexpr std::size_t kMax = FusedRunner::kMaxValues;
  const FusedRunner& r_;
  const FusedSchedule& s_;
  const FusedGrid& g_;
  void* const* in_;
  void* const* out_;
  std::byte* scratch_;
  bool streams_;
  std::int64_t tile_ = -1, row_ = 0, height_ = 1;
  std::array<std::int64_t, kMaxRank> index_{};
  std::int64_t kept_[kMax] = {};
  std::byte* base_[kMax] = {};
  std::byte* at_[kMax] = {};      // address for steps over all columns
  std::byte* row_at_[kMax] = {};  // address for steps on rows
  const std::byte* shared_[kMax] = {};
  std::int64_t shared_rows_[kMax] = {};
  bool scalar_[kMax] = {}, row_scalar_[kMax] = {}, direct_[kMax] = {}, streamed_[kMax] = {};
};

void FusedRunner::run(void* const* in, void* const* out, void* scratch) const {
  auto* aligned = static_cast<std::byte*>(scratch) + (-reinterpret_cast<std::uintptr_t>(scratch) & (kLine - 1));
  const std::int64_t rows = grid_.rows(), elements = rows * grid_.cols;
  const std::int64_t lines = rows == 0 ? 0 : rows / grid_.rows_in_line();
  const std::int64_t units = lines * tiles_in_line_ * blocks_across_;
  const std::int64_t most = std::min<std::int64_t>({threads_, num_threads(), std::max<std::int64_t>(units, 1)});
  const std::int64_t pieces = std::clamp<std::int64_t>(elements / kGrain, 1, most);
  const bool streams = elements / pieces * schedule_.widest >= kStreamBytes;
  const auto work = [&](int piece) {
    FusedWorker worker(*this, in, out, aligned + static_cast<std::size_t>(piece) * thread_bytes_, streams);
    worker.run(units * piece / pieces, units * (piece + 1) / pieces);
  };
  if (pieces == 1)
    work(0);
  else
    parallel_run(static_cast<int>(pieces), work);

  std::byte* results[kMaxValues] = {};
  bool row_results = false;
  for (const auto& fold : schedule_.folds) {
    const auto i = static_cast<std::size_t>(fold.reduction);
    if (totals_[i] < 0) continue;
    const auto& reduction = grid_.reductions[i];
    const auto& value = schedule_.values[static_cast<std::size_t>(reduction.value)];
    const std::int64_t count = reduction.kept * (reduction.over_cols ? 1 : grid_.cols);
    auto* total = reinterpret_cast<double*>(aligned + thread_totals_) + totals_[i];
    for (std::int64_t p = 1; p < pieces; ++p) {
      const auto* other =
          reinterpret_cast<const double*>(aligned + static_cast<std::size_t>(p) * thread_bytes_ + thread_totals_) +
          totals_[i];
      for (std::int64_t k = 0; k < count; ++k) total[k] = fold.fns.join(total[k], other[k]);
    }
    results[i] = value.output >= 0 ? static_cast<std::byte*>(out[value.output])
                                   : aligned + rows_ + static_cast<std::size_t>(reduction.value) * slot_bytes_;
    if (value.output < 0 && value.storage != StorageClass::row) continue;
    for (std::int64_t k = 0; k < count; ++k) store(fold.f64, results[i], k, total[k] * fold.scale);
    row_results = true;
  }
  if (row_results && cut_ && schedule_.has_row_calls())
    FusedWorker(*this, in, out, aligned + static_cast<std::size_t>(0), false).finish_rows(results);
}

}  // namespace starling::kernels
