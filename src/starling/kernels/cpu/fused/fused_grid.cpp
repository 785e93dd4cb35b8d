#include "starling/kernels/cpu/fused/fused_grid.h"

#include <algorithm>

#include "starling/kernels/strides.h"
#include "starling/ops/api/reduce.h"

namespace starling::kernels {
namespace {

// Dimensions with the strides of operands and the reductions over them.
struct Dims {
  struct Dim {
    std::int64_t size;
    std::vector<std::int64_t> strides;
    std::vector<bool> reduced;
  };
  std::vector<Dim> of{};

  void add(Dim dim) {
    if (!of.empty() && joins(of.back(), dim)) {
      dim.size *= of.back().size;
      of.back() = std::move(dim);
    } else {
      of.push_back(std::move(dim));
    }
  }
  static bool joins(const Dim& before, const Dim& dim) {
    if (before.reduced != dim.reduced) return false;
    for (std::size_t k = 0; k < dim.strides.size(); ++k) {
      if (before.strides[k] != dim.strides[k] * dim.size) return false;
    }
    return true;
  }
};

// Adds a dimension of size 1 for a reduction over sizes of 1 alone, which must still produce one result per row.
void give_each_a_dim(Dims& dims, std::size_t operands, std::size_t reductions) {
  bool idle = dims.of.empty();
  for (std::size_t r = 0; r < reductions; ++r) {
    idle = idle || std::none_of(dims.of.begin(), dims.of.end(), [&](const Dims::Dim& dim) { return dim.reduced[r]; });
  }
  if (!idle) return;
  Dims::Dim one{1, std::vector<std::int64_t>(operands, 0), std::vector<bool>(reductions, true)};
  dims.of.push_back(std::move(one));
}

}  // namespace

std::optional<FusedGrid> fused_grid(const FusedProgram& program, std::span<const ArgDesc> in,
                                    const std::vector<TensorType>& types) {
  std::vector<TensorType> given(types.begin(), types.begin() + program.operands);
  const Shape whole = fused_shape(given);
  const auto below = program.reduced();
  FusedGrid grid;
  std::vector<Shape> strides, axes;
  for (const auto& arg : in) strides.push_back(broadcast_strides(arg.shape, arg.strides, whole));
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const FusedStep& step = program.steps[s];
    if (!step.reduces()) continue;
    const auto at = static_cast<std::size_t>(step.in[0]);
    if (below[at] && types[at].shape != whole) return std::nullopt;
    Shape of = step.axes();
    if (of.empty()) {
      for (int d = 0; d < whole.rank(); ++d) of.push_back(d);
    }
    axes.push_back(of);
    grid.reductions.push_back({.value = program.operands + static_cast<int>(s)});
  }
  Dims dims;
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole[d] == 1) continue;
    Dims::Dim dim{whole[d], {}, {}};
    for (const auto& own : strides) dim.strides.push_back(own[d]);
    for (const auto& own : axes) dim.reduced.push_back(std::find(own.begin(), own.end(), d) != own.end());
    dims.add(std::move(dim));
  }
  give_each_a_dim(dims, strides.size(), axes.size());

  const std::size_t last = dims.of.size() - 1;
  grid.cols = dims.of[last].size;
  for (std::size_t d = 0; d < last; ++d) grid.outer.push_back(dims.of[d].size);
  for (std::size_t k = 0; k < in.size(); ++k) {
    const auto bytes = static_cast<std::int64_t>(size_of(in[k].dtype));
    FusedGrid::Operand operand{.col = dims.of[last].strides[k] * bytes, .bytes = static_cast<int>(bytes)};
    for (std::size_t d = 0; d < last; ++d) operand.outer.push_back(dims.of[d].strides[k] * bytes);
    operand.row = last > 0 ? operand.outer.back() : 0;
    grid.operands.push_back(operand);
  }
  for (std::size_t r = 0; r < axes.size(); ++r) {
    auto& made = grid.reductions[r];
    made.over_cols = dims.of[last].reduced[r];
    made.strides = Shape::filled(static_cast<int>(last), 0);
    for (std::size_t d = last; d-- > 0;) {
      if (dims.of[d].reduced[r]) {
        made.over_rows = true;
        continue;
      }
      made.strides[static_cast<int>(d)] = made.kept;
      made.kept *= dims.of[d].size;
    }
    made.count = op::reduced_count(whole, axes[r]);
  }
  return grid;
}

}  // namespace starling::kernels
