#pragma once

#include <cstdint>

#include "starling/base/error.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Order of steps of a recurrent layer over states [t+1, n, h] and sequences [t, n, ..]: see ops/def/recurrent.h.
struct RecurrentSteps {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t hidden = 0;
  bool reverse = false;
  const std::int64_t* lengths = nullptr;  // null: all sequences have full length

  // Time step processed as number i of [0, steps), and the state slots before and after it.
  std::int64_t step(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
  std::int64_t begins(std::int64_t step) const { return reverse ? step + 1 : step; }
  std::int64_t ends(std::int64_t step) const { return reverse ? step : step + 1; }
  std::int64_t first_slot() const { return reverse ? steps : 0; }
  std::int64_t last_slot() const { return reverse ? 0 : steps; }
  // True if a step lies within the sequence of a row; other steps keep the state.
  bool active(std::int64_t step, std::int64_t row) const { return !lengths || step < lengths[row]; }

  // Copy with the lengths of a call; throws if one is outside [0, steps].
  RecurrentSteps with_lengths(const void* values, const char* who) const {
    RecurrentSteps s = *this;
    s.lengths = static_cast<const std::int64_t*>(values);
    for (std::int64_t n = 0; s.lengths && n < batch; ++n) {
      if (s.lengths[n] < 0 || s.lengths[n] > steps)
        fail("[{}] expected lengths in [0, {}], got {} in row {}", who, steps, s.lengths[n], n);
    }
    return s;
  }
};

inline RecurrentSteps recurrent_steps(const Shape& states, bool reverse) {
  return {states[0] - 1, states[1], states[2], reverse, nullptr};
}

}  // namespace starling::kernels
