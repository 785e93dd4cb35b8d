#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "starling/dist/ps/gate.h"
#include "starling/dist/ps/norm_rule.h"

namespace starling::dist::ps {

// Steps of one key that need norms of its whole tensor, of which other servers hold pieces too. A server measures its
// piece of a step, sends the sums to the other servers, and makes the step when the sums of all have arrived: the n-th
// step of a worker (or of a clock) is the same on all servers. No call blocks meanwhile. Knows no tensors.
class NormExchange {
 public:
  // Name of a step on all servers: the worker that pushed it, and how many of that worker's came before it.
  struct Tag {
    int worker = 0;  // -1: all workers together
    std::uint64_t count = 0;
    friend auto operator<=>(const Tag&, const Tag&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees one
  };

  // ordered: steps come in the same order on all servers and are made one after another; else only the steps of one
  // worker are ordered.
  NormExchange(int server, std::vector<int> servers, bool ordered)
      : server_(server), servers_(std::move(servers)), ordered_(ordered) {}

  void add(int worker, Step step);  // of this server, to be measured
  void hear(int server, const Tag& tag, const NormSums& sums);
  // Drops the steps of a lost worker that wait for a server which never got its piece; returns how many. Ordered steps
  // are those of all workers and stay.
  std::size_t forget(int worker);
  bool idle() const { return waiting_.empty(); }

  // Next step to be measured on this server; tell() gives its sums.
  struct Measured {
    Tag tag;
    const Step* step = nullptr;
  };
  std::optional<Measured> next_to_measure();
  void tell(const Tag& tag, const NormSums& own);
  // Next step that all servers have measured, taken out.
  struct Ready {
    Step step;
    NormSums whole;
  };
  std::optional<Ready> next_to_make();

 private:
  struct Waiting {
    Tag tag;
    Step step;
    bool measured = false;
  };
  bool first_of_its_kind(std::size_t place) const;

  int server_;
  std::vector<int> servers_;  // servers that hold a piece
  bool ordered_;
  std::deque<Waiting> waiting_;
  std::map<int, std::uint64_t> counts_;
  std::map<Tag, std::map<int, NormSums>> heard_;  // by server
};

}  // namespace starling::dist::ps
