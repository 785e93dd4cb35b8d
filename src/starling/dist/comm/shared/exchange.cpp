#include "starling/dist/comm/shared/exchange.h"

#include <algorithm>

#include "starling/base/bytes.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

void Post::fill(const Call& call, const Fingerprint& print) {
  fingerprint = print;
  send = static_cast<const std::byte*>(call.send);
  recv = static_cast<std::byte*>(call.recv);
  shards = call.shards;
  color_and_key[0] = call.color;
  color_and_key[1] = call.key;
  counts.assign(call.counts.begin(), call.counts.end());
}

Exchange::Exchange(int world) : offsets_(at(world + 1), 0) { sources_.reserve(at(world)); }

void Exchange::open(std::span<const Post> posts, std::int64_t least) {
  posts_ = posts;
  const Fingerprint& f = posts[0].fingerprint;
  const auto size = static_cast<std::int64_t>(size_of(f.dtype));
  const int world = static_cast<int>(posts.size());
  const bool whole = f.op == CommOp::all_reduce || f.op == CommOp::sum_shards || f.op == CommOp::broadcast;
  for (int r = 0; r < world; ++r) {
    const std::int64_t piece = posts[0].counts.empty() ? f.count : posts[0].counts[at(r)];
    offsets_[at(r + 1)] = whole ? f.count : offsets_[at(r)] + piece;
  }
  sources_.clear();
  for (const Post& post : posts) {
    for (std::int64_t k = 0; k < post.shards; ++k) sources_.push_back(post.send + (k > 0 ? k * f.count * size : 0));
  }
  const bool moves = f.op != CommOp::barrier && f.op != CommOp::split;
  // Several units per rank, unless they become too small to be worth sharing out.
  const std::int64_t even = offsets_.back() * size / (2 * world) / least * least;
  unit_ = std::clamp(even, least, kUnitBytes) / size;
  units_ = moves ? (offsets_.back() + unit_ - 1) / unit_ : 0;
}

void Exchange::run(std::int64_t unit, PieceTally& tally) const {
  const std::int64_t begin = unit * unit_;
  const std::int64_t end = std::min(begin + unit_, offsets_.back());
  switch (posts_[0].fingerprint.op) {
    case CommOp::all_reduce:
    case CommOp::sum_shards: return reduce_to_all(begin, end, tally);
    case CommOp::reduce_scatter: return reduce_to_owner(begin, end, tally);
    case CommOp::all_gather:
    case CommOp::all_to_all: return gather(begin, end, tally);
    case CommOp::broadcast: return broadcast(begin, end, tally);
    case CommOp::gather:
    case CommOp::scatter: return through_root(begin, end, tally);
    default: return;
  }
}

// Calls body(rank, begin, end) for each rank's piece within the range.
template <class Body>
void Exchange::for_pieces(std::int64_t begin, std::int64_t end, Body body) const {
  for (int r = 0; r + 1 < static_cast<int>(offsets_.size()); ++r) {
    const std::int64_t b = std::max(begin, offsets_[at(r)]), e = std::min(end, offsets_[at(r + 1)]);
    if (b < e) body(r, b, e);
  }
}

// Owners of a range of a buffer that all ranks reduce, with the bytes of each.
SmallVector<Exchange::Owned, 4> Exchange::owners_of(std::int64_t begin, std::int64_t end) const {
  const auto size = static_cast<std::int64_t>(size_of(posts_[0].fingerprint.dtype));
  const auto world = static_cast<std::int64_t>(posts_.size());
  const std::int64_t count = offsets_.back();
  SmallVector<Owned, 4> owners;
  std::int64_t from = begin;
  for (std::int64_t r = begin * world / count; from < end; ++r) {
    const std::int64_t last = count * (r + 1) / world, to = std::min(end, last);
    if (to > from) owners.push_back({static_cast<int>(r), (to - from) * size, to == last});
    from = std::max(from, to);
  }
  return owners;
}

void Exchange::reduce_to_all(std::int64_t begin, std::int64_t end, PieceTally& tally) const {
  const Fingerprint& f = posts_[0].fingerprint;
  const auto size = static_cast<std::int64_t>(size_of(f.dtype));
  if (posts_.size() == 1 && sources_.size() == 1) {  // single source: a copy, or nothing when in place
    return copy_bytes(posts_[0].recv + begin * size, posts_[0].send + begin * size, (end - begin) * size);
  }
  // Rank 0's result may alias the first source, and no other.
  for (std::int64_t b = begin; b < end; b += kReduceBlock) {
    const std::int64_t n = std::min(kReduceBlock, end - b);
    std::byte* result = posts_[0].recv + b * size;
    const auto owners = owners_of(b, b + n);
    reduce_block(f.dtype, f.reduce, sources_, b, n, result);
    for (int r = 0; r < static_cast<int>(posts_.size()); ++r) {
      for (const Owned& part : owners) {
        tally.moved(r, part.owner, part.bytes * posts_[at(r)].shards, part.ended, 0);
      }
    }
    for (int r = 0; r < static_cast<int>(posts_.size()); ++r) {
      copy_bytes(posts_[at(r)].recv + b * size, result, n * size);
      for (const Owned& part : owners) tally.moved(part.owner, r, part.bytes, part.ended, 1);
    }
  }
}

void Exchange::reduce_to_owner(std::int64_t begin, std::int64_t end, PieceTally& tally) const {
  const Fingerprint& f = posts_[0].fingerprint;
  const auto size = static_cast<std::int64_t>(size_of(f.dtype));
  alignas(64) std::byte block[kReduceBlock * 8];
  for_pieces(begin, end, [&](int owner, std::int64_t from, std::int64_t to) {
    for (std::int64_t b = from; b < to; b += kReduceBlock) {
      const std::int64_t n = std::min(kReduceBlock, to - b);
      reduce_block(f.dtype, f.reduce, sources_, b, n, block);
      for (int r = 0; r < static_cast<int>(posts_.size()); ++r) {
        tally.moved(r, owner, n * size, b + n == offsets_[at(owner + 1)]);
      }
      copy_bytes(posts_[at(owner)].recv + (b - offsets_[at(owner)]) * size, block, n * size);
    }
  });
}

void Exchange::gather(std::int64_t begin, std::int64_t end, PieceTally& tally) const {
  const Fingerprint& f = posts_[0].fingerprint;
  const auto size = static_cast<std::int64_t>(size_of(f.dtype));
  const bool personal = f.op == CommOp::all_to_all;
  for_pieces(begin, end, [&](int from, std::int64_t b, std::int64_t e) {
    for (int to = 0; to < static_cast<int>(posts_.size()); ++to) {
      const std::int64_t start = b - offsets_[at(from)] + (personal ? to * f.count : 0);
      copy_bytes(posts_[at(to)].recv + b * size, posts_[at(from)].send + start * size, (e - b) * size);
      tally.moved(from, to, (e - b) * size, e == offsets_[at(from + 1)]);
    }
  });
}

void Exchange::through_root(std::int64_t begin, std::int64_t end, PieceTally& tally) const {
  const Fingerprint& f = posts_[0].fingerprint;
  const auto size = static_cast<std::int64_t>(size_of(f.dtype));
  const Post& root = posts_[at(f.root)];
  for_pieces(begin, end, [&](int rank, std::int64_t b, std::int64_t e) {
    const Post& post = posts_[at(rank)];
    const std::int64_t start = b - offsets_[at(rank)];
    const bool ended = e == offsets_[at(rank + 1)];
    if (f.op == CommOp::gather) {
      copy_bytes(root.recv + b * size, post.send + start * size, (e - b) * size);
      return tally.moved(rank, f.root, (e - b) * size, ended);
    }
    copy_bytes(post.recv + start * size, root.send + b * size, (e - b) * size);
    tally.moved(f.root, rank, (e - b) * size, ended);
  });
}

void Exchange::broadcast(std::int64_t begin, std::int64_t end, PieceTally& tally) const {
  const Fingerprint& f = posts_[0].fingerprint;
  const auto size = static_cast<std::int64_t>(size_of(f.dtype));
  for (int r = 0; r < static_cast<int>(posts_.size()); ++r) {
    copy_bytes(posts_[at(r)].recv + begin * size, posts_[at(f.root)].send + begin * size, (end - begin) * size);
    tally.moved(f.root, r, (end - begin) * size, end == offsets_.back());
  }
}

}  // namespace starling::dist
