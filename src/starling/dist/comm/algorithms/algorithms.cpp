#include "starling/dist/comm/algorithms/algorithms.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/comm/algorithms/builder.h"

namespace starling::dist {
namespace {

// World of one: copies send to recv.
Schedule make_alone(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  if (request.op == CommOp::barrier || request.op == CommOp::broadcast) return b.take();
  const std::int64_t count = request.counts.empty() ? request.count : request.counts[0];
  b.copy_first(b.block(ScheduleBuffer::recv, 0, count), b.block(ScheduleBuffer::send, 0, count));
  return b.take();
}

}  // namespace

Algorithm::Maker Algorithm::maker(CommOp op) const {
  const auto found = std::find_if(makers.begin(), makers.end(), [&](const auto& entry) { return entry.first == op; });
  return found == makers.end() ? nullptr : found->second;
}

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> all{
      one_shot_algorithm(), recursive_doubling_algorithm(), direct_algorithm(),  halving_doubling_algorithm(),
      ring_algorithm(),     hierarchical_algorithm(),       linear_algorithm(),  binomial_algorithm(),
      chain_algorithm(),    dissemination_algorithm(),      pairwise_algorithm()};
  return all;
}

const Algorithm& algorithm_named(std::string_view wanted, CommOp op) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.maker(op) == nullptr) continue;
    if (algorithm.name == wanted) return algorithm;
    names.push_back(algorithm.name);
  }
  fail("[comm] expected an algorithm of {} ({}), got '{}'", name(op), fmt::join(names, ", "), wanted);
}

Schedule make_schedule(const Algorithm& algorithm, const ScheduleRequest& request) {
  const Algorithm::Maker make = algorithm.maker(request.op);
  if (make == nullptr) fail("[comm] expected an algorithm that does {}, got {}", name(request.op), algorithm.name);
  if (algorithm.needs_hosts && request.hosts.size() != static_cast<std::size_t>(request.size))
    fail("[comm] expected the host of each of {} ranks for {}, got {}", request.size, algorithm.name,
         request.hosts.size());
  return request.size == 1 ? make_alone(request) : make(request);
}

}  // namespace starling::dist
