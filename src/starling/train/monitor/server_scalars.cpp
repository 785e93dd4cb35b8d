#include "starling/train/monitor/server_scalars.h"

#include <fmt/format.h>

#include "starling/dist/codec/codec.h"

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
  for (int server = 0;; ++server) {
    const std::string of = fmt::format("queue_of.{}.", server);
    if (counter(now, of + "rounds") == 0) break;
    const double rounds = counter(now, of + "rounds") - counter(before, of + "rounds");
    const double requests = counter(now, of + "requests") - counter(before, of + "requests");
    all.push_back({fmt::format("servers/queue_of/{}", server), rounds > 0 ? requests / rounds : 0});
  }
  for (Scalar& one : traffic_scalars(before, now)) all.push_back(std::move(one));
  return all;
}

std::vector<Scalar> traffic_scalars(const Counters& before, const Counters& now) {
  constexpr std::string_view kBefore = "decoded_bytes.";
  std::vector<Scalar> all;
  for (const auto& [name, bytes] : now) {
    if (!name.starts_with(kBefore)) continue;
    const std::string weight = name.substr(kBefore.size()), after = "coded_bytes." + weight;
    const auto add = [&](const char* what, double value) {
      all.push_back({fmt::format("codec/{}/{}", weight, what), value});
    };
    add("megabytes_before", (bytes - counter(before, name)) / 1e6);
    add("megabytes_after", (counter(now, after) - counter(before, after)) / 1e6);
    add("error", counter(now, "codec_error." + weight));
  }
  return all;
}

std::map<std::string, std::string> chosen_forms(const Counters& counters) {
  constexpr std::string_view kForm = "codec_form.";
  std::map<std::string, std::string> forms;
  for (const auto& [name, value] : counters) {
    if (name.starts_with(kForm))
      forms[name.substr(kForm.size())] = dist::name(static_cast<dist::GradientForm>(static_cast<int>(value)));
  }
  return forms;
}

}  // namespace starling::train
