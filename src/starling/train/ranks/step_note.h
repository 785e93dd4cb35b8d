#pragma once

#include <array>
#include <cstdint>

#include "starling/dist/comm/call.h"

namespace starling {

// What one rank has done and waited for since its run began.
struct RankStats {
  std::int64_t samples = 0;   // of its own rows that it computed
  std::int64_t left_out = 0;  // of its own rows that it did not, since it was too late for them
  double seconds = 0;         // of steps, and of waiting to hear of those of others
  double data_wait = 0;       // of these, for data
  std::uint64_t sent = 0;     // bytes that its strategy's exchanges put on the way
  std::uint64_t received = 0;
  std::array<double, kCommOpCount> wait{};  // seconds inside each kind of operation

  double samples_per_s() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
  double left_out_share() const {
    return left_out > 0 ? static_cast<double>(left_out) / static_cast<double>(left_out + samples) : 0;
  }
  double waited() const {
    double all = 0;
    for (const double one : wait) all += one;
    return all;
  }
};

// What every rank tells all others after a step: what they must agree on, and what is to be known of it. Bytes on the
// wire, so plain data.
struct StepNote {
  static constexpr std::uint32_t kLoss = 1, kGradients = 2;  // what was not finite
  std::int64_t step = 0;                                     // done
  double loss = 0;  // loss · weight of its rows; 0 where the program knows the loss of all
  double weight = 0;
  double clock = 0;               // seconds since the run began, by its own clock
  std::uint32_t interrupted = 0;  // it was asked to save and leave
  std::uint32_t ended = 0;        // a callback there has ended the run
  std::uint32_t not_finite = 0;   // its loss or its gradients were not
  std::uint32_t unused = 0;       // no byte without a value travels
  RankStats stats{};
};

}  // namespace starling
