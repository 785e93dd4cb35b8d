#pragma once

#include <span>
#include <string>
#include <vector>

#include "starling/graph/pass.h"
#include "starling/graph/tracer.h"

namespace starling {

struct VerifyOptions {
  // Largest relative L2 distance of compiled from eager; 0: 1e-5, in f64 programs 1e-11, with halves 1e-2.
  double tolerance = 0;
  // And of eager from fp64; 0: 10⁴ times the tolerance. Beyond it the eager result itself is doubtful. Deep networks
  // with batch norm come to 10³ times: units near 0 fall on the other side.
  double fp64_tolerance = 0;
  // A distance above the tolerance is rounding, not a fault, while compiled is at most so many times as far from fp64
  // as eager is.
  double rounding = 2;
  bool fp64 = true;  // off: eager and compiled only
  int threads = 0;   // 0: as many as parallel_for may use
  std::vector<Pass> passes = all_passes();
  std::vector<std::string> outputs = {};  // names of the function's results; missing ones are numbered
};

// One result of the function, or one variable it has written, seen three ways. Distances are relative in L2. Of a
// variable: relative to how far the step moved it, but never below what rounding the variable itself may cost.
struct VerifyRow {
  std::string name{};
  bool is_variable = false;
  double compiled_eager = 0;
  double eager_fp64 = 0;
  double compiled_fp64 = 0;
  bool differs = false;   // compiled is not what eager says
  bool doubtful = false;  // eager is not what fp64 says
};

// The stage at which a program stops being what eager code says: "trace", "lowering" (with no pass at all) or the name
// of a pass, the first that makes a difference when passes are switched on one after another.
struct VerifyFault {
  std::string stage{};
  std::string row{};  // the first result that differs there, and by how much
  double distance = 0;
  std::string node{};  // the first node whose value the program before did not have, as far as it can be told
};

struct VerifyReport {
  std::vector<VerifyRow> rows;
  VerifyFault fault;  // empty stage: none
  double tolerance = 0;
  double fp64_tolerance = 0;
  bool ok() const;
  std::string print(std::size_t most_rows = 60) const;  // a table, the worst first where it does not fit
};

// Runs f eagerly, compiled with all passes, and in fp64, each from the same state and the same random numbers, and
// compares results and variables. All variables and gradient slots have their values again afterwards. One rank.
VerifyReport verify_step(const TraceFn& f, std::span<const Tensor> arguments, const VerifyOptions& options = {});

}  // namespace starling
