#pragma once

#include <span>
#include <string>
#include <vector>

#include "starling/graph/pass.h"
#include "starling/graph/tracer.h"

namespace starling::runtime {

struct VerifyOptions {
  // Largest relative L2 distance of compiled from eager; 0: 1e-5, in f64 programs 1e-11, with half floats 1e-2.
  double tolerance = 0;
  // Largest relative L2 distance of eager from fp64; 0: 10⁴ times the tolerance. Beyond it the eager result itself is
  // doubtful. Deep networks with batch norm reach 10³ times: units near 0 change sign.
  double fp64_tolerance = 0;
  // Factor by which compiled may be further from fp64 than eager is: up to it, a distance above the tolerance counts as
  // rounding, not as a fault.
  double rounding = 2;
  bool fp64 = true;  // off: eager and compiled only
  int threads = 0;   // 0: num_threads()
  std::vector<graph::Pass> passes = graph::all_passes();
  std::vector<std::string> outputs = {};  // names of the results; missing ones are numbered
};

// One result of the function, or one variable it has written, computed in three ways. Distances are relative in L2. For
// a variable they are relative to the step's update, but never below the rounding error of the variable itself.
struct VerifyRow {
  std::string name{};
  bool is_variable = false;
  double compiled_eager = 0;
  double eager_fp64 = 0;
  double compiled_fp64 = 0;
  bool differs = false;   // compiled disagrees with eager
  bool doubtful = false;  // eager disagrees with fp64
};

// Stage at which a program starts to differ from eager execution: "trace", "lowering" (without any pass) or the name of
// the first pass that makes a difference when passes are enabled one by one.
struct VerifyFault {
  std::string stage{};
  std::string row{};  // first result that differs there, and its distance
  double distance = 0;
  std::string node{};  // first node with a value that the program before that stage did not have, if found
};

struct VerifyReport {
  std::vector<VerifyRow> rows;
  VerifyFault fault;  // empty stage: no fault
  double tolerance = 0;
  double fp64_tolerance = 0;
  bool ok() const;
  std::string print(std::size_t most_rows = 60) const;  // table; the worst rows if it does not fit
};

// Runs f eagerly, compiled with all passes, and in fp64, each from the same state and random numbers, and compares
// results and variables. Variables and gradient slots are restored afterwards. Single rank only.
VerifyReport verify_step(const graph::TraceFn& f, std::span<const Tensor> arguments, const VerifyOptions& options = {});

}  // namespace starling::runtime
