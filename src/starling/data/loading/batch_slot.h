#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "starling/data/loading/batch_source.h"
#include "starling/tensor/device_copies.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct Batch {
  TensorList fields;    // [size, …] each, contiguous on the CPU
  TensorList placed{};  // the same on the loader's device; none without one
  std::int64_t size = 0;
  data::DataPosition begin{};  // position of its first sample
  std::int64_t total = 0;      // samples of the batch over all ranks (for a stream: of this rank)
  std::int64_t portion = -1;  // number of the portion, where portions are handed out (LoaderOptions::portions); else -1
};

// Buffers for one batch and the plan of the batch in them. The loader's mutex guards the counts; the tensors belong to
// the worker that makes a part, then to the user. With `copies` every part is on its way to a device as soon as it is
// made.
class BatchSlot {
 public:
  BatchSlot(const std::vector<TensorType>& fields, std::int64_t rows, std::unique_ptr<data::BatchPlan> plan,
            std::shared_ptr<DeviceCopies> copies = nullptr);
  ~BatchSlot();
  BatchSlot(const BatchSlot&) = delete;
  BatchSlot& operator=(const BatchSlot&) = delete;

  // Sizes the batch as planned and splits it into at most `most_parts` parts of at least `least_rows` rows.
  void shape(int most_parts, std::int64_t least_rows);
  const Batch& batch() const { return *current_; }
  TensorList rows(std::int64_t begin, std::int64_t end) const;  // views of samples [begin, end)

  // Steps of a slot with a device, in this order: begin() waits until the memory may be written; place() sends samples
  // that were made; placed() when all are on their way; hand_out() lets programs begin behind them; take_back() when no
  // more programs that read them are to come. Without a device they do nothing.
  void begin();
  void place(std::int64_t begin, std::int64_t end);
  void placed();
  void hand_out();
  void take_back();

  data::BatchPlan& plan() { return *plan_; }
  const data::BatchPlan& plan() const { return *plan_; }
  std::int64_t part_begin(int part) const { return plan_->size * part / parts; }

  int parts = 0;
  int claimed = 0;  // parts begun or finished by a worker
  int done = 0;

 private:
  Batch& shaped(std::int64_t size);

  TensorList buffers_;  // allocated for the largest batch
  std::shared_ptr<DeviceCopies> copies_;
  TensorList twins_;                                    // of the buffers, on the device
  std::unique_ptr<DeviceMark> arrived_, free_to_fill_;  // the copies are made; the programs that read them have run
  std::unique_ptr<data::BatchPlan> plan_;
  Batch full_;
  Batch tail_;  // views of the last smaller batch, reused when the next one has the same size
  Batch* current_ = nullptr;
};

// Samples [begin, end) along the first axis of contiguous tensors.
TensorList rows_of(const TensorList& tensors, std::int64_t begin, std::int64_t end);

}  // namespace starling
