#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "starling/dist/comm/comm.h"
#include "starling/runtime/program.h"

namespace starling::python {

namespace nb = nanobind;

// A strategy as Python holds it. `comm` is set where every rank runs its own part of a global program.
struct PyStrategy {
  std::shared_ptr<runtime::Strategy> strategy;
  std::shared_ptr<Comm> comm;
  bool compiles = true;  // false: what it does between programs is a trainer's part
};

PyStrategy strategy_from(nb::handle given);  // None: one rank

// Rows of this call over all ranks.
std::int64_t rows_of_all(Comm& comm, std::int64_t own);

}  // namespace starling::python
