#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct GradientReducerOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;       // gradients per all-reduce
  std::size_t first_bucket_bytes = std::size_t{1} << 20;  // smaller, so that it is sent early
  bool overlap = true;                                    // off: nothing is sent before finish()
};

// Averages gradients of eager code over ranks while backward() still runs (like PyTorch's DDP reducer), for networks
// whose graph changes from step to step and differs from rank to rank:
//   GradientReducer reducer(*comm, net.parameters());
//   each step:  reducer.begin(rows here);  loss.backward();  reducer.finish();  opt.step();
// The order of buckets is fixed at construction, last parameters first, and does not depend on the order in which
// gradients arrive: a bucket is sent when all of its gradients are there and all buckets before it have been sent. A
// parameter that a rank does not use in a step counts as zeros there, and its bucket is sent by finish(). A parameter
// that no rank used has no gradient afterwards. A parameter that is given twice, or used in several places, is reduced
// once.
//
// begin() takes the number of samples that this rank's loss is the mean of; the result is the mean over the samples of
// all ranks. A rank without samples passes 0 and need not run backward(). To accumulate over several backward passes,
// call begin() before the last. No other code may use the communicator between begin() and finish(), which all ranks
// call; one thread per rank.
class GradientReducer {
 public:
  // Collective: all ranks must give the same parameters (names, types, order, bits), else all throw, naming the first
  // that differs.
  GradientReducer(Comm& comm, std::span<const Tensor> parameters, const GradientReducerOptions& options = {});
  ~GradientReducer();  // between begin() and finish(): breaks the group, since other ranks wait for this one
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void begin(double samples);
  void finish();  // sends the remaining buckets, waits, and sets all gradients to the mean

  std::size_t buckets() const { return buckets_.size(); }
  std::size_t left_early() const { return early_; }  // buckets of the last step sent before finish()

 private:
  struct Parameter {
    Tensor tensor{};
    std::size_t bucket = 0;
    std::int64_t offset = 0;  // offset of its gradient in the bucket, in elements
    bool filled = false;
    HookHandle hook{};
  };
  // Sent content: the sample count, a used flag per member, then the gradients times the sample count.
  struct Bucket {
    DType dtype = DType::f32;  // f16 and bf16 are sent as f32: counts and sums need it
    std::vector<std::size_t> members{};
    std::int64_t count = 0;  // elements, including sample count and flags
    std::size_t missing = 0;
    std::vector<double> memory{};  // double, to be aligned for either dtype
    Work work{};
    bool under_way = false;  // memory is in use by the all-reduce
  };

  void agree() const;
  void make_buckets(const GradientReducerOptions& options);
  void on_filled(std::size_t parameter);
  void start_full();
  void start(Bucket& bucket);
  template <class T>
  void pack(Bucket& bucket);
  template <class T>
  void unpack(const Bucket& bucket);

  Comm& comm_;
  bool overlap_;
  std::vector<Parameter> parameters_;  // in sending order
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // next bucket to send
  std::size_t early_ = 0;
  double samples_ = 0;
  bool active_ = false;
};

}  // namespace starling
