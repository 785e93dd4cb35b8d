// Partitioned linear topology (Mariana): ranks lie on a chain. Partition k is merged toward rank k hop by hop from both
// ends and sent back the same way. Partition k passes link i -> i+1 on its way in at time P-1-k+i and on its way out at
// time P-1+i-k, and the other way alike: a link direction never carries two at once, all merges end at time P-2, and
// every link carries exactly n bytes per direction, whatever P. 2(P-1) steps.
#include <algorithm>

#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/builder.h"

namespace starling::dist {
namespace {

struct Chain {
  ScheduleBuilder& b;
  const ScheduleRequest& request;
  Cuts cuts;
  Block from_left, from_right;  // receive blocks of a partition

  int last() const { return request.size - 1; }
  Block own(int k) const { return b.piece(ScheduleBuffer::send, cuts, k); }
  Block merged(int k) const { return b.piece(ScheduleBuffer::recv, cuts, k); }

  // Partition k > rank moves right on its way in.
  void merge_rightward(int k) const {
    const int time = last() - k + request.rank;
    if (request.rank > 0) {
      const Block landing = part(from_left, 0, own(k).bytes);
      b.recv(time - 1, request.rank - 1, landing);
      b.combine(time - 1, merged(k), {landing, own(k)}, false);
    }
    b.send(time, request.rank + 1, request.rank > 0 ? merged(k) : own(k));
  }

  // Partition k < rank moves left.
  void merge_leftward(int k) const {
    const int time = k + last() - request.rank;
    if (request.rank < last()) {
      const Block landing = part(from_right, 0, own(k).bytes);
      b.recv(time - 1, request.rank + 1, landing);
      b.combine(time - 1, merged(k), {own(k), landing}, false);
    }
    b.send(time, request.rank - 1, request.rank < last() ? merged(k) : own(k));
  }

  // The rank's own partition arrives from both sides at once.
  void complete() const {
    const int k = request.rank, time = last() - 1;
    std::vector<Block> sources;
    if (k > 0) {
      sources.push_back(part(from_left, 0, own(k).bytes));
      b.recv(time, k - 1, sources.back());
    }
    sources.push_back(own(k));
    if (k < last()) {
      sources.push_back(part(from_right, 0, own(k).bytes));
      b.recv(time, k + 1, sources.back());
    }
    b.combine(time, merged(k), std::move(sources), true);
  }

  void spread(int k) const {
    const int away = std::abs(request.rank - k), time = last() + away;
    if (away > 0) b.recv(time - 1, request.rank > k ? request.rank - 1 : request.rank + 1, merged(k));
    if (request.rank >= k && request.rank < last()) b.send(time, request.rank + 1, merged(k));
    if (request.rank <= k && request.rank > 0) b.send(time, request.rank - 1, merged(k));
  }
};

Schedule all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  if (request.size == 1) return b.take();
  const std::int64_t longest = (request.count + request.size - 1) / request.size;
  const Chain chain{b, request, even_cuts(request.count, request.size), b.scratch(longest), b.scratch(longest)};
  for (int k = request.size - 1; k > request.rank; --k) chain.merge_rightward(k);
  for (int k = 0; k < request.rank; ++k) chain.merge_leftward(k);
  chain.complete();
  for (int k = 0; k < request.size; ++k) chain.spread(k);
  b.pad(2 * (request.size - 1));
  return b.take();
}

}  // namespace

Algorithm linear_algorithm() {
  return {.name = "linear",
          .law = "all_reduce: 2(P-1) steps, every link of the chain carries n bytes per direction",
          .makers = {{CommOp::all_reduce, all_reduce}},
          .needs_chain = true};
}

}  // namespace starling::dist
