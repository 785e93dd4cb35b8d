#pragma once

#include <array>
#include <cstdint>

#include "starling/dist/comm/call.h"

namespace starling {

// Work and waiting time of one rank since its run began.
struct RankStats {
  std::int64_t samples = 0;   // own rows that were computed
  std::int64_t left_out = 0;  // own rows left out because the rank was too late
  double seconds = 0;         // time of steps, including waits for the notes of others
  double data_wait = 0;       // part of it spent waiting for data
  std::uint64_t sent = 0;     // bytes sent by the strategy's exchanges
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

// Message of every rank to all others after a step: values to agree on, and statistics. Sent as raw bytes, so plain
// data.
struct StepNote {
  static constexpr std::uint32_t kLoss = 1, kGradients = 2, kState = 3;  // values of not_finite
  std::int64_t step = 0;                                                 // steps done
  double loss = 0;  // loss · weight of its rows; 0 if the program's loss covers all ranks
  double weight = 0;
  double clock = 0;               // seconds since the run began, on the rank's own clock
  std::uint32_t interrupted = 0;  // asked to save and stop
  std::uint32_t ended = 0;        // a callback on this rank ended the run
  std::uint32_t not_finite = 0;   // kLoss, kGradients or kState
  std::uint32_t unchecked = 0;    // with kState: steps since the state was last found finite
  RankStats stats{};
};

}  // namespace starling
