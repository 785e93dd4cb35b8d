#pragma once

#include <cstddef>

#include "starling/kernels/recurrent_steps.h"

namespace starling::kernels {

// Recurrent layers over whole sequences in f32, as defined in ops/api/rnn.h. Threads share out rows of the batch and
// never wait for each other; the weights are packed once for all steps.
enum class RecurrentCell : std::uint8_t { lstm, gru, tanh, relu };

struct RecurrentForward {
  RecurrentCell cell;
  RecurrentSteps steps;
  const float* gx;
  const float* w;
  const float* bias;  // gru
  const float* h0;
  const float* c0;  // lstm
  float* hs;
  float* cs;     // lstm
  float* gates;  // lstm, gru
};

// Absent gradients are null and count as zero.
struct RecurrentBackward {
  RecurrentCell cell;
  RecurrentSteps steps;
  const float* dhs;
  const float* dcs;
  const float* dgates;
  const float* w;
  const float* gates;
  const float* hs;
  const float* cs;
  float* dgx;
  float* dp;  // gradient of W h + b: separate for gru, otherwise equal to dgx
  float* dh;
  float* dc;
};

std::size_t recurrent_scratch(RecurrentCell cell, std::int64_t hidden);  // bytes, for forward or backward
void recurrent_forward(const RecurrentForward& job, void* scratch, int threads);
void recurrent_backward(const RecurrentBackward& job, void* scratch, int threads);

}  // namespace starling::kernels
