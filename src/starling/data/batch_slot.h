#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "starling/data/batch_source.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct Batch {
  TensorList fields;  // [size, …] each, dense on a CPU
  std::int64_t size = 0;
  DataPosition begin{};    // of its first sample
  std::int64_t total = 0;  // samples on all ranks together (of a stream: here)
};

// Memory for one batch and what is known of the batch in it. The loader's mutex guards the counts; the tensors belong
// to whoever makes a part, then to the user.
class BatchSlot {
 public:
  BatchSlot(const std::vector<TensorType>& fields, std::int64_t rows, std::unique_ptr<BatchPlan> plan);

  // Takes the shape of the planned batch and cuts it into parts of at least `least_rows`, at most `most_parts`.
  void shape(int most_parts, std::int64_t least_rows);
  const Batch& batch() const { return *current_; }
  TensorList rows(std::int64_t begin, std::int64_t end) const;  // views of those samples

  BatchPlan& plan() { return *plan_; }
  const BatchPlan& plan() const { return *plan_; }
  std::int64_t part_begin(int part) const { return plan_->size * part / parts; }

  int parts = 0;
  int claimed = 0;  // parts that somebody makes or made
  int done = 0;

 private:
  Batch& shaped(std::int64_t size);

  TensorList buffers_;  // full size
  std::unique_ptr<BatchPlan> plan_;
  Batch full_;
  Batch tail_;  // kept for the next one of the same size
  Batch* current_ = nullptr;
};

// Samples [begin, end) along the first axis of dense tensors.
TensorList rows_of(const TensorList& tensors, std::int64_t begin, std::int64_t end);

}  // namespace starling
