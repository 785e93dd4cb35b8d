#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  double stddev = 1;  // of the normal numbers it begins with
};

// Ids i64[…] below the vocabulary → rows […, width] of the weight.
class Embedding : public Module {
 public:
  explicit Embedding(const EmbeddingOptions& options);

 protected:
  Tensor forward(const Tensor& ids) override;

 private:
  Tensor* weight_;
};

// [n, t, …] → [t, n, …], which is how recurrent layers walk.
class TimeFirst : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

struct LstmOptions {
  std::int64_t in = 0;
  std::int64_t hidden = 0;
};

// One layer, forward in time from a state of zeros: [t, n, in] → the outputs of all steps, [t, n, hidden]. Gates and
// both biases are PyTorch's (ops/rnn.h); all begin uniform in ±1/√hidden.
class Lstm : public Module {
 public:
  explicit Lstm(const LstmOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Tensor* w_ih_;
  Tensor* w_hh_;
  Tensor* b_ih_;
  Tensor* b_hh_;
};

// [t, n, …] → [n, …]
class MeanOverTime : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace starling::nn
