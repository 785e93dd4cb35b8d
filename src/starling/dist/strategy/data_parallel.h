#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/runtime/program.h"

namespace starling {

struct DataParallelOptions {
  int workers = 2;
  int threads_per_worker = 0;  // 0: the threads of this process, divided evenly
  // Bitwise equal results for any number of workers: the batch is cut into `shards` logical shards, each run by the
  // same program with one thread, and their gradients are added in shard order. Costs speed.
  bool deterministic = false;
  int shards = 12;
  std::string shard_order = "shard";  // "tree" adds per worker first; for experiments, loses bitwise equality
  bool checked = true;                // compare the collective calls of all ranks
  // Wraps each rank's communicator; tests inject delays and faults here.
  std::function<std::unique_ptr<Comm>(std::unique_ptr<Comm>)> decorate = nullptr;
};

// Synchronous data parallelism with ranks that are threads of this process: arguments are split along dimension 0,
// variables are replicated, and the resulting partial gradients become all-reduces, which overlap with the backward
// pass. A call takes and returns global tensors. Rank 0 uses the caller's variables; the other ranks hold replicas,
// refreshed whenever the originals were written from outside.
class DataParallel final : public runtime::Strategy {
 public:
  explicit DataParallel(DataParallelOptions options);
  ~DataParallel() override;
  std::string name() const override;
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override;

  // Strategy for the programs of a step that is made of several: gradient slots hold every rank's own terms until the
  // program that uses them reduces them, once. Null in deterministic mode: there the terms of all logical shards are
  // added in their order, which sums of several batches would change.
  std::shared_ptr<runtime::Strategy> parts() const;

 private:
  struct Replicas;
  DataParallelOptions options_;
  bool local_gradients_ = false;
  std::shared_ptr<Replicas> replicas_;  // shared by the programs of one strategy
};

inline std::shared_ptr<runtime::Strategy> data_parallel(DataParallelOptions options) {
  return std::make_shared<DataParallel>(std::move(options));
}

}  // namespace starling
