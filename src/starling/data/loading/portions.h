#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "starling/data/loading/position.h"

namespace starling::data {

// Numbers of the portions that the batches of a run are cut into: every batch from a start on, in the order of epochs,
// is cut into `pieces` portions of about equal size, and all of them are counted from 0. A batch has the rows that a
// loader would give it which begins at the start.
class PortionGrid {
 public:
  struct Options {
    std::int64_t samples = 0;  // per epoch
    std::int64_t batch = 0;
    std::int64_t pieces = 1;
    DataPosition start{};
  };
  PortionGrid() = default;
  explicit PortionGrid(const Options& options);

  struct Span {
    DataPosition batch{};    // position of the batch's first sample
    std::int64_t total = 0;  // samples of the batch
    std::int64_t first = 0;  // the portion's samples within the batch: [first, first + size)
    std::int64_t size = 0;
  };
  Span at(std::int64_t portion) const;
  // Position behind the first `portions` portions. At the end of an epoch it is that epoch's end, not the next one.
  DataPosition after(std::int64_t portions) const;
  // Portions before this epoch; those of the first epoch are counted from the start on.
  std::int64_t before_epoch(std::int64_t epoch) const;
  std::int64_t pieces() const { return options_.pieces; }

 private:
  Options options_;
  std::int64_t first_batches_ = 0;  // of the epoch that the start lies in
  std::int64_t batches_ = 0;        // of every later epoch
};

// Source of portion numbers for a worker's loader.
class Portions {
 public:
  virtual ~Portions() = default;
  // The next portion for this worker; nullopt: none until the worker has looked why. Called by one thread of the
  // loader. Blocks until there is an answer, and no longer than a fraction of a second after `stop`.
  virtual std::optional<std::int64_t> next(const std::atomic<bool>& stop) = 0;
};

}  // namespace starling::data
