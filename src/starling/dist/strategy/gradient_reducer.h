#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct GradientReducerOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;       // gradients that go by one exchange
  std::size_t first_bucket_bytes = std::size_t{1} << 20;  // less, so that it leaves early
  bool overlap = true;                                    // off: nothing is exchanged before finish()
};

// Gradients of eager code averaged over ranks while backward() still runs, for networks whose graph changes from step
// to step and differs from rank to rank:
//   GradientReducer reducer(*comm, net.parameters());
//   each step:  reducer.begin(rows here);  loss.backward();  reducer.finish();  opt.step();
// The order of exchanges is fixed at construction, last parameters first, and does not depend on the order in which
// gradients arrive: a bucket leaves when all of its gradients are there and the buckets before it have left. What a
// rank does not use in a step counts as zeros there, and leaves with finish(). What no rank used keeps an empty slot. A
// parameter that is given twice, or used in several places, is reduced once.
//
// begin() says how many samples this rank's loss is the mean of; the result is the mean over the samples of all ranks,
// and a rank without any says 0 and need not run backward(). To accumulate over several backward passes, call begin()
// before the last. The communicator is used by nobody else between begin() and finish(), both of which all ranks call;
// one thread a rank.
class GradientReducer {
 public:
  // Collective: all ranks give the same parameters (names, types, order), else all throw and name the first that
  // differs.
  GradientReducer(Comm& comm, std::span<const Tensor> parameters, const GradientReducerOptions& options = {});
  ~GradientReducer();  // between begin() and finish(): breaks the group, whose other ranks wait for this one
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void begin(double samples);
  void finish();  // sends what is left, waits, and fills the slots; returns when all gradients are the mean

  std::size_t buckets() const { return buckets_.size(); }
  std::size_t left_early() const { return early_; }  // buckets of the last step that left before finish()

 private:
  struct Parameter {
    Tensor tensor{};
    std::size_t bucket = 0;
    std::int64_t offset = 0;  // of its gradient in the bucket, in elements
    bool filled = false;
    HookHandle hook{};
  };
  // On the way: the samples, whether each member was used, then the gradients times the samples.
  struct Bucket {
    DType dtype = DType::f32;  // halves travel as f32: counts and sums need it
    std::vector<std::size_t> members{};
    std::int64_t count = 0;  // elements, with what rides along
    std::size_t missing = 0;
    std::vector<double> memory{};  // aligned for either dtype
    Work work{};
    bool under_way = false;  // the memory belongs to the exchange
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
  std::vector<Parameter> parameters_;  // in the order of exchange
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // bucket to leave
  std::size_t early_ = 0;
  double samples_ = 0;
  bool active_ = false;
};

}  // namespace starling
