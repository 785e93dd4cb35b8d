#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>

#include "held.h"
#include "starling/data/loading/batch_source.h"
#include "starling/ops/def/sharding/sharding.h"

namespace starling::python {

namespace nb = nanobind;

// Batches that Python makes. `from(epoch, sample)` is an iterator of (fields, samples of all ranks) from there to the
// end of the epoch, asked by the loader's threads; an error of it comes out of the loader as it is.
struct PythonBatchesOptions {
  Held from{};
  std::int64_t batch = 0;                              // most samples that it may have
  std::int64_t samples = -1;                           // of an epoch; -1: unknown
  std::function<Piece(std::int64_t total)> mine = {};  // rows of this rank; null: all that Python made
};
std::unique_ptr<data::BatchSource> python_batches(PythonBatchesOptions options);

}  // namespace starling::python
