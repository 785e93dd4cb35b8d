#pragma once

#include <span>

#include "starling/tensor/tensor.h"

namespace starling {

// Recurrent networks. Gates, their order and the two biases match PyTorch, so that weights can be exchanged:
//   lstm  i, f, g, o    c' = f c + i g,  h' = o tanh(c')
//   gru   r, z, n       n = tanh(x_n + r (W_hn h + b_hn)),  h' = (1 - z) n + z h
//   rnn                 h' = tanh(x + W_hh h), or relu

// Weights of one layer in one direction. Either bias may be undefined.
struct RnnWeights {
  Tensor w_ih;  // [gates · hidden, in]
  Tensor w_hh;  // [gates · hidden, hidden]
  Tensor b_ih;  // [gates · hidden]
  Tensor b_hh;  // [gates · hidden]
};

struct RnnOptions {
  bool batch_first = false;    // x and y are [n, t, ..] instead of [t, n, ..]; states are not affected
  bool bidirectional = false;  // weights come in pairs, forward then backward; y is [.., 2 · hidden]
  double dropout = 0;          // on the outputs of every layer but the last
  bool relu = false;           // rnn only: relu instead of tanh
  Tensor lengths = {};         // i64[n] in [0, t]: later steps keep the state, and their outputs are 0
  Tensor h0 = {};              // [layers · directions, n, hidden]; undefined: zeros
  Tensor c0 = {};              // as h0; lstm only
};

struct RnnResult {
  Tensor y;  // [t, n, directions · hidden], the last layer's outputs
  Tensor h;  // [layers · directions, n, hidden], final states
  Tensor c;  // final cell states; lstm only
};

// x is [t, n, in]; one RnnWeights per layer and direction, in the order of `h`.
RnnResult lstm(const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& options = {});
RnnResult gru(const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& options = {});
RnnResult rnn(const Tensor& x, std::span<const RnnWeights> weights, const RnnOptions& options = {});

}  // namespace starling
