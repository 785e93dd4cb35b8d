#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// The whole sequence of an LSTM layer in one launch: weights stay in registers, states go from step to step through
// shared memory of a cluster. For layers of at most kMostPersistentUnits units; layouts as in ops/def/recurrent.h.
inline constexpr int kMostPersistentUnits = 256;

struct LstmSequence {
  int steps, batch, hidden;
  bool reverse;
  const long long* lengths;  // or null: a row keeps its state where step ≥ lengths[row]
  const float* w;            // [4h, h]
};
struct LstmSequenceForward {
  const float *gx, *h0, *c0;  // the states may be null: zero
  float *hs, *cs, *gates;
};
struct LstmSequenceBackward {
  const float *dhs, *dcs, *dgates, *gates, *cs;  // dcs and dgates may be null: zero
  float *dgx, *dh, *dc;
};

cudaError_t load_lstm_sequence(int hidden);
cudaError_t launch_lstm_sequence(const LstmSequence& layer, const LstmSequenceForward& f, cudaStream_t stream);
cudaError_t launch_lstm_sequence(const LstmSequence& layer, const LstmSequenceBackward& f, cudaStream_t stream);

}  // namespace starling::device
