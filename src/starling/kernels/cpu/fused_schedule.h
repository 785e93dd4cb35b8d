#pragma once

#include <array>
#include <optional>
#include <vector>

#include "starling/kernels/cpu/fused_grid.h"
#include "starling/kernels/cpu/simd/block.h"
#include "starling/kernels/cpu/simd/fused_fold.h"
#include "starling/kernels/cpu/simd/fused_run.h"

namespace starling {

// A fused program as sweeps over a tile of rows that stays in the cache. A reduction over columns that later steps read
// ends a sweep; what is made of its results, one a row, is computed between sweeps. A value is made as late as its
// readers allow, so that few have to be kept from one sweep to the next.
struct FusedSchedule {
  // Where a value lies. Of rows: one element a row, made between sweeps.
  enum class Place : std::uint8_t { none, operand, temporary, buffer, output, row, total };
  struct Value {
    Place place = Place::none;
    int slot = -1;           // which temporary, buffer or row
    int output = -1;         // which output it is, or -1
    int bytes = 4;           // of one element
    bool of_rows = false;    // one element a row
    bool read_full = false;  // by steps over all columns: a value of rows has to be spread for them
    bool folded = false;     // by a reduction, which needs every element in memory
    bool read_row = false;   // operands: by steps on rows
    bool later = false;      // by a later sweep than the one that makes it
  };
  // A call of a vector function; without one the value is spread or copied. With `run` it is several cheap steps in
  // registers, from the first of `in` on, each with another value or none (-1); the last may be folded on the way.
  struct Step {
    RunOp op{};
    int operand = -1;
  };
  struct Call {
    BlockFn fn = nullptr;
    std::array<int, 3> in{-1, -1, -1};  // values
    int out = 0;
    std::array<double, 2> params{};
    std::vector<Step> run{};
    int fold = -1;       // of `folds`, made on the way where rows are long
    bool stores = true;  // someone else reads the result
    RunFn run_fn = nullptr;

    bool reads(int value) const;
  };
  struct Fold {
    int reduction = 0;  // of the grid
    int in = 0;         // value
    FoldFns fns{};
    double scale = 1;
    bool f64 = false;
    FoldOp op = FoldOp::sum;
    bool on_the_way = false;  // by a run, where rows are long
  };
  struct Sweep {
    std::vector<Call> calls{};
    std::vector<int> folds{};
    std::vector<Call> row_calls{};  // after it
  };
  std::vector<Value> values{};
  std::vector<Fold> folds{};
  std::vector<Sweep> sweeps{};
  int temporaries = 0, buffers = 0, rows = 0;
  int widest = 4;  // bytes of an element

  bool has_row_calls() const;
};

// Null where a step has no vector function, an output is no step or is given twice, or a reduction that is only known
// at the end is read by a step.
std::optional<FusedSchedule> fused_schedule(const FusedProgram& program, const FusedGrid& grid,
                                            const std::vector<TensorType>& types);

}  // namespace starling
