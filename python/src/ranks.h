#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>

#include "held.h"
#include "starling/dist/comm/comm.h"
#include "starling/runtime/program.h"

namespace starling::python {

namespace nb = nanobind;

// A strategy as Python holds it. `comm` is set where every rank runs its own part of a global program.
struct PyStrategy {
  std::shared_ptr<runtime::Strategy> strategy;
  std::shared_ptr<Comm> comm;
  bool compiles = true;  // false: what it does between programs is a trainer's part
  // Of what stores pieces: whether begin() has cut them, which copies of this object share. Null: nothing is cut.
  std::shared_ptr<bool> begun = nullptr;
  Held net = nullptr;  // the net given to begin(): its tensors are stored as the strategy says
  Held optimizer = nullptr;

  // Place of this rank among those that share out the rows of a batch: on a mesh others hold the same rows.
  int data_rank() const;
  int data_ranks() const;
};

PyStrategy strategy_from(nb::handle given);  // None: one rank

std::shared_ptr<Comm> world_comm();  // ranks of the world that this process has joined; throws before that

// Ranks that split the model, not the rows, are given the same arguments, and what is to be cut was cut: looked at
// before the first run of a program. Collective; not for use with the GIL held.
void expect_ready(const PyStrategy& strategy, std::span<const Tensor> arguments);

// Rows of this call over all ranks that have rows of their own.
std::int64_t rows_of_all(const PyStrategy& strategy, std::int64_t own);

}  // namespace starling::python
