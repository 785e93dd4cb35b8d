#pragma once

#include <vector>

#include "starling/dist/codec/gradient_traffic.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling::dist {

// Counters of coded gradients: bytes before and after coding and the compression error, in all and of each weight; and
// of weights whose form is chosen the number of that (GradientForm).
inline void add_traffic(const std::vector<GradientTraffic>& traffic, std::vector<LawCounter>& to) {
  double before = 0, after = 0;
  for (const GradientTraffic& one : traffic) {
    if (one.form) to.push_back({"codec_form." + one.name, static_cast<double>(*one.form)});
    if (one.before == 0) continue;
    before += one.before;
    after += one.after;
    to.push_back({"decoded_bytes." + one.name, one.before});
    to.push_back({"coded_bytes." + one.name, one.after});
    to.push_back({"codec_error." + one.name, one.error});
  }
  if (before == 0) return;
  to.push_back({"decoded_bytes", before});
  to.push_back({"coded_bytes", after});
}

}  // namespace starling::dist
