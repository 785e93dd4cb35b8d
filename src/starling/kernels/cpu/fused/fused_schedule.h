#pragma once

#include <array>
#include <optional>
#include <vector>

#include "starling/kernels/cpu/fused/fused_fold.h"
#include "starling/kernels/cpu/fused/fused_grid.h"
#include "starling/kernels/cpu/fused/fused_run.h"
#include "starling/kernels/cpu/simd/block.h"

namespace starling::kernels {

// Fused program as sweeps over a tile of rows that stays in cache. A reduction over columns that later steps read ends
// a sweep; steps on its results, one per row, run between sweeps. A value is computed as late as its readers allow, so
// that few must be kept from one sweep to the next.
struct FusedSchedule {
  // Memory that holds a value. `row`: one element per row, computed between sweeps.
  enum class StorageClass : std::uint8_t { none, operand, temporary, buffer, output, row, total };
  struct Value {
    StorageClass storage = StorageClass::none;
    int slot = -1;           // index of the temporary, buffer or row
    int output = -1;         // index of the output it is, or -1
    int bytes = 4;           // of one element
    bool of_rows = false;    // one element per row
    bool read_full = false;  // read by steps over all columns; a row value must be broadcast for them
    bool folded = false;     // read by a reduction, which needs every element in memory
    bool read_row = false;   // operands: read by steps on row values
    bool later = false;      // read by a later sweep than the one that computes it
  };
  // Call of a vector function; without one the value is broadcast or copied. With `run` it is several cheap steps in
  // registers, starting from the first of `in`, each with one more value or none (-1); a reduction of the last may be
  // fused in.
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
    int fold = -1;       // index into `folds`, fused in where rows are long
    bool stores = true;  // another step reads the result
    RunFn run_fn = nullptr;

    bool reads(int value) const;
  };
  struct Fold {
    int reduction = 0;  // index of the grid's reduction
    int in = 0;         // value
    FoldFns fns{};
    double scale = 1;
    bool f64 = false;
    FoldOp op = FoldOp::sum;
    bool on_the_way = false;  // fused into a run, where rows are long
  };
  struct Sweep {
    std::vector<Call> calls{};
    std::vector<int> folds{};
    std::vector<Call> row_calls{};  // between this sweep and the next
  };
  std::vector<Value> values{};
  std::vector<Fold> folds{};
  std::vector<Sweep> sweeps{};
  int temporaries = 0, buffers = 0, rows = 0;
  int widest = 4;  // bytes of the widest element

  bool has_row_calls() const;
};

// Null where a step has no vector function, an output is not a step or appears twice, or a step reads a reduction that
// is only complete at the end.
std::optional<FusedSchedule> fused_schedule(const FusedProgram& program, const FusedGrid& grid,
                                            const std::vector<TensorType>& types);

}  // namespace starling::kernels
