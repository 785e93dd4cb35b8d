#include "starling/dist/comm/hosts/stages.h"

#include <algorithm>
#include <memory>

#include "starling/base/bytes.h"
#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {
namespace {

using Line = HostsLines::Line;
using Counts = std::vector<std::int64_t>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Builds the stages of one call. Data needed later is copied: the call's views end with the call.
class Maker {
 public:
  Maker(const Call& call, const HostsLines& lines, const HostMap& hosts, int world)
      : call_(call),
        lines_(lines),
        hosts_(hosts),
        world_(world),
        size_(static_cast<std::int64_t>(size_of(call.dtype))),
        name_(call.name),
        counts_(call.counts.begin(), call.counts.end()) {}

  Staged make() {
    switch (call_.op) {
      case CommOp::all_reduce:
        hosts_.even() ? reduce_by_shares() : reduce_by_leaders(static_cast<std::byte*>(call_.recv), call_.count);
        break;
      case CommOp::reduce_scatter: hosts_.even() ? scatter_by_local_ranks() : scatter_from_whole(); break;
      case CommOp::all_gather: hosts_.even() ? gather_by_local_ranks() : flat(); break;
      case CommOp::broadcast: broadcast(); break;
      case CommOp::barrier: barrier(); break;
      case CommOp::send:
      case CommOp::recv: message(); break;
      default: flat(); break;
    }
    return std::move(staged_);
  }

 private:
  void add(Line line, std::function<Work()> start) { staged_.stages.push_back({line, std::move(start)}); }

  CallOptions options() const { return {.name = name_, .deadline = remaining()}; }
  std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(call_.deadline - CommClock::now());
    return std::max(left, std::chrono::milliseconds(1));
  }
  // Means are summed in all stages and divided once at the end.
  ReduceOp step_reduce() const { return call_.reduce == ReduceOp::mean ? ReduceOp::sum : call_.reduce; }
  void divide(std::byte* data, std::int64_t count) const {
    if (call_.reduce != ReduceOp::mean) return;
    for (std::int64_t b = 0; b < count; b += kReduceBlock) {
      divide_block(call_.dtype, data + b * size_, std::min(kReduceBlock, count - b), world_);
    }
  }

  // Each rank of a host reduces a share of the buffer, all-reduces it across hosts, then the shares are gathered
  // inside.
  void reduce_by_shares() {
    const int ranks = hosts_.local_world(), own = hosts_.local_rank();
    const auto begin = [&](int local) { return call_.count * local / ranks; };
    Counts shares;
    for (int p = 0; p < ranks; ++p) shares.push_back(begin(p + 1) - begin(p));
    auto* piece = static_cast<std::byte*>(call_.recv) + begin(own) * size_;
    const std::int64_t count = shares[at(own)];
    const auto self = keep();
    add(Line::inside, [=] {
      const Call& c = self->call_;
      return self->lines_.before->reduce_scatter(c.send, piece, shares, c.dtype, self->step_reduce(), self->options());
    });
    add(Line::across, [=] { return self->cross(piece, count); });
    add(Line::outside, [=] {
      self->divide(piece, count);
      return self->lines_.after->all_gather(piece, self->call_.recv, shares, self->call_.dtype, self->options());
    });
  }

  Work cross(void* data, std::int64_t count) const {
    return lines_.cross->all_reduce(data, data, count, call_.dtype, step_reduce(), options());
  }

  // Each host reduces the whole buffer, the first ranks all-reduce it across hosts and broadcast it inside.
  void reduce_by_leaders(std::byte* result, std::int64_t count) {
    const auto self = keep();
    add(Line::inside, [=] {
      const Call& c = self->call_;
      return self->lines_.before->all_reduce(c.send, result, count, c.dtype, self->step_reduce(), self->options());
    });
    if (hosts_.leads()) add(Line::across, [=] { return self->cross(result, count); });
    add(Line::outside, [=] {
      if (self->hosts_.leads()) self->divide(result, count);
      return self->lines_.after->broadcast(result, count, self->call_.dtype, 0, self->options());
    });
  }

  void scatter_from_whole() {
    const std::int64_t whole = whole_length(call_, world_), rank = own_rank();
    const auto buffer = temporary(whole);
    reduce_by_leaders(buffer, whole);
    auto* recv = static_cast<std::byte*>(call_.recv);
    const std::byte* piece = buffer + offset(static_cast<int>(rank)) * size_;
    const std::int64_t bytes = length(static_cast<int>(rank)) * size_;
    const auto self = keep();
    staged_.finish = [=] { self->copy(recv, piece, bytes); };
  }

  // Pieces are sorted by local rank: each rank reduces those of its local rank inside the host, then across hosts.
  void scatter_by_local_ranks() {
    const auto self = keep();
    std::byte* packed = temporary(whole_length(call_, world_));
    Counts inside, across;
    std::byte* to = packed;
    for (int local = 0; local < hosts_.local_world(); ++local) {
      inside.push_back(0);
      for (int h = 0; h < hosts_.hosts(); ++h) {
        const int r = hosts_.ranks_of(h)[at(local)];
        copy_bytes(to, static_cast<const std::byte*>(call_.send) + offset(r) * size_, length(r) * size_);
        to += length(r) * size_;
        inside.back() += length(r);
        if (local == hosts_.local_rank()) across.push_back(length(r));
      }
    }
    std::byte* shares = temporary(inside[at(hosts_.local_rank())]);
    auto* recv = static_cast<std::byte*>(call_.recv);
    const std::int64_t own = length(own_rank());
    add(Line::inside, [=] {
      return self->lines_.before->reduce_scatter(packed, shares, inside, self->call_.dtype, self->step_reduce(),
                                                 self->options());
    });
    add(Line::across, [=] {
      return self->lines_.cross->reduce_scatter(shares, recv, across, self->call_.dtype, self->step_reduce(),
                                                self->options());
    });
    staged_.finish = [=] { self->divide(recv, own); };
  }

  // Reverse of scatter_by_local_ranks: ranks of equal local rank gather across hosts, then inside each host; pieces are
  // then put in rank order.
  void gather_by_local_ranks() {
    const auto self = keep();
    Counts across, inside;
    for (int local = 0; local < hosts_.local_world(); ++local) {
      inside.push_back(0);
      for (int h = 0; h < hosts_.hosts(); ++h) {
        const int r = hosts_.ranks_of(h)[at(local)];
        inside.back() += length(r);
        if (local == hosts_.local_rank()) across.push_back(length(r));
      }
    }
    std::byte* own = temporary(inside[at(hosts_.local_rank())]);
    std::byte* all = temporary(whole_length(call_, world_));
    add(Line::across, [=] {
      return self->lines_.cross->all_gather(self->call_.send, own, across, self->call_.dtype, self->options());
    });
    add(Line::outside,
        [=] { return self->lines_.after->all_gather(own, all, inside, self->call_.dtype, self->options()); });
    staged_.finish = [=] { self->unpack(all); };
  }

  void unpack(const std::byte* all) const {
    auto* recv = static_cast<std::byte*>(call_.recv);
    for (int local = 0; local < hosts_.local_world(); ++local) {
      for (int h = 0; h < hosts_.hosts(); ++h) {
        const int r = hosts_.ranks_of(h)[at(local)];
        copy_bytes(recv + offset(r) * size_, all, length(r) * size_);
        all += length(r) * size_;
      }
    }
  }

  // Inside the root's host, across hosts, then inside the other hosts.
  void broadcast() {
    const auto self = keep();
    const int root = call_.peer, home = hosts_.host_of(root), local = hosts_.local_rank(root);
    const auto tell = [self](Comm& comm, int from) {
      return comm.broadcast(self->call_.recv, self->call_.count, self->call_.dtype, from, self->options());
    };
    if (hosts_.host() == home) add(Line::inside, [=] { return tell(*self->lines_.before, local); });
    if (hosts_.even() ? hosts_.local_rank() == local : hosts_.leads()) {
      add(Line::across, [=] { return tell(*self->lines_.cross, home); });
    }
    if (hosts_.host() != home) {
      const int from = hosts_.even() ? local : 0;
      add(Line::outside, [=] { return tell(*self->lines_.after, from); });
    }
  }

  void barrier() {
    const auto self = keep();
    add(Line::inside, [=] { return self->lines_.before->barrier(self->options()); });
    if (lines_.cross) add(Line::across, [=] { return self->lines_.cross->barrier(self->options()); });
    add(Line::outside, [=] { return self->lines_.after->barrier(self->options()); });
  }

  void message() {
    const auto self = keep();
    const bool near = hosts_.host_of(call_.peer) == hosts_.host();
    const int peer = near ? hosts_.local_rank(call_.peer) : call_.peer;
    add(Line::direct, [=] {
      const Call& c = self->call_;
      Comm& comm = near ? *self->lines_.local : *self->lines_.world;
      if (c.op == CommOp::send) return comm.send(c.send, c.count, c.dtype, peer, self->options());
      return comm.recv(c.recv, c.count, c.dtype, peer, self->options());
    });
  }

  void flat() {
    const auto self = keep();
    add(Line::flat, [=] { return self->start_flat(*self->lines_.world); });
  }

  Work start_flat(Comm& comm) const {
    const Call& c = call_;
    const bool uneven = !counts_.empty();
    switch (c.op) {
      case CommOp::all_gather:
        return uneven ? comm.all_gather(c.send, c.recv, counts_, c.dtype, options())
                      : comm.all_gather(c.send, c.recv, c.count, c.dtype, options());
      case CommOp::gather:
        return uneven ? comm.gather(c.send, c.recv, counts_, c.dtype, c.peer, options())
                      : comm.gather(c.send, c.recv, c.count, c.dtype, c.peer, options());
      case CommOp::scatter:
        return uneven ? comm.scatter(c.send, c.recv, counts_, c.dtype, c.peer, options())
                      : comm.scatter(c.send, c.recv, c.count, c.dtype, c.peer, options());
      default: return comm.all_to_all(c.send, c.recv, c.count, c.dtype, options());
    }
  }

  std::int64_t length(int rank) const { return piece_length(call_, rank); }
  std::int64_t offset(int rank) const { return piece_offset(call_, rank); }
  int own_rank() const { return hosts_.ranks_of(hosts_.host())[at(hosts_.local_rank())]; }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) const { copy_bytes(to, from, bytes); }

  std::byte* temporary(std::int64_t count) {
    memory_->push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(count * size_)));
    return memory_->back().get();
  }

  // Copy of this maker for the stages to hold, with the call's views pointing at its own copies.
  std::shared_ptr<const Maker> keep() {
    auto copy = std::make_shared<Maker>(*this);
    copy->staged_ = {};
    copy->call_.name = copy->name_;
    copy->call_.counts = copy->counts_;
    return copy;
  }

  Call call_;
  const HostsLines& lines_;
  const HostMap& hosts_;
  const int world_;
  const std::int64_t size_;
  std::string name_;
  Counts counts_;
  std::shared_ptr<std::vector<std::unique_ptr<std::byte[]>>> memory_ =
      std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
  Staged staged_;
};

}  // namespace

Staged stages_of(const Call& call, const HostsLines& lines, const HostMap& hosts, int world) {
  return Maker(call, lines, hosts, world).make();
}

}  // namespace starling::dist
