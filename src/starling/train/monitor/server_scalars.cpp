#include "starling/train/monitor/server_scalars.h"

#include <fmt/format.h>

namespace starling::train {
namespace {

using dist::ps::counter;
using dist::ps::Counters;

// Mean of a histogram's values that came after `before`; 0 without any.
double mean_since(const Counters& before, const Counters& now, const std::string& name) {
  double sum = 0, count = 0;
  for (std::int64_t value = 0; value <= dist::ps::Histogram::kMost; ++value) {
    const std::string bar = fmt::format("{}.{}", name, value);
    const double more = counter(now, bar) - counter(before, bar);
    sum += more * static_cast<double>(value);
    count += more;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

std::vector<Scalar> server_scalars(const Counters& before, const Counters& now) {
  if (now.empty()) return {};
  std::vector<Scalar> all;
  for (const char* what : {"staleness", "gap", "queue"}) {
    all.push_back({fmt::format("servers/{}", what), mean_since(before, now, what)});
    all.push_back({fmt::format("servers/{}_largest", what), counter(now, fmt::format("{}.largest", what))});
  }
  const auto since = [&](const char* name) { return counter(now, name) - counter(before, name); };
  all.push_back({"servers/updates", since("updates")});
  all.push_back({"servers/wait_seconds", since("wait_seconds")});
  all.push_back({"servers/megabytes_in", since("bytes_in") / 1e6});
  all.push_back({"servers/megabytes_out", since("bytes_out") / 1e6});
  if (counter(now, "coded") > 0) {
    all.push_back({"servers/megabytes_coded", since("coded_bytes") / 1e6});
    all.push_back({"servers/megabytes_decoded", since("decoded_bytes") / 1e6});
  }
  return all;
}

}  // namespace starling::train
