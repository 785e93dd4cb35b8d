// Device part of FakeNccl: streams, events, memory, and the execution of queued tasks. Included by fake_nccl.h.
#pragma once

namespace starling::dist {

// ---- the device

inline void FakeNccl::record(int rank, DeviceEvent handle, DeviceStream stream) {
  expect_closed_group(rank, "record");
  auto* event = static_cast<Event*>(handle);
  if (event->freed) violate(rank, "use of an event that was freed");
  for (auto& [key, owned] : comms_) {
    if (owned->rank_in_device == rank && !owned->comm.dead && owned->comm.polls > 0) {
      violate(rank, "record behind a launch that is still in progress");
    }
  }
  event->stream = stream_of(rank, stream);
  event->position = event->stream->submitted;
}

inline bool FakeNccl::passed(int rank, DeviceEvent handle) {
  expect_closed_group(rank, "a wait");
  progress(rank);
  const auto* event = static_cast<Event*>(handle);
  if (event->freed) violate(rank, "use of an event that was freed");
  return event->stream == nullptr || event->stream->completed >= event->position;
}

inline void FakeNccl::stream_wait(int rank, DeviceStream stream, DeviceEvent handle) {
  expect_closed_group(rank, "stream_wait");
  auto* event = static_cast<Event*>(handle);
  if (event->freed) violate(rank, "use of an event that was freed");
  if (event->stream == nullptr) return;
  Task task;
  task.awaited = event->stream;
  task.position = event->position;
  submit(rank, stream_of(rank, stream), std::move(task));
}

inline void* FakeNccl::allocate(int rank, std::size_t bytes) {
  auto data = std::make_unique<std::vector<std::byte>>(std::max<std::size_t>(bytes, 1));
  void* address = data->data();
  memory_[address] = {rank, std::move(data)};
  return address;
}

inline void FakeNccl::free(int rank, void* data) {
  std::size_t bytes = 0;
  {
    std::scoped_lock lock(mutex_);
    progress(rank);
    const auto found = memory_.find(data);
    if (found == memory_.end()) {
      violate(rank, "free of memory that was not allocated");
      return;
    }
    bytes = found->second.second->size();
  }
  touch(rank, data, bytes, "freed");
  std::scoped_lock lock(mutex_);
  freed_.push_back(std::move(memory_[data].second));
  memory_.erase(data);
}

// Moves the devices on. Only polls of its own rank bring a kernel to its end: else a rank that happens to be slow would
// find its kernels done by the polls of others, and a missing wait for them would go unseen.
inline void FakeNccl::progress(int rank) {
  if (options_.hangs) return;
  for_streams([&](Stream& stream) {
    if (stream.rank == rank && !stream.queue.empty()) --stream.queue.front().rounds;
  });
  bool moved = true;
  while (moved) {
    moved = false;
    for_streams([&](Stream& stream) { moved |= advance(stream); });
  }
}

// Ends the task at the head of the stream, if it can end.
inline bool FakeNccl::advance(Stream& stream) {
  if (stream.queue.empty()) return false;
  Task& task = stream.queue.front();
  bool moved = false;
  if (task.awaited && task.awaited->completed < task.position) return false;
  if (task.body) {
    if (task.rounds > 0) return false;
    task.body();
  }
  for (Part& part : task.parts) {
    if (!part.done) moved |= advance_part(part);
  }
  if (!std::all_of(task.parts.begin(), task.parts.end(), [](const Part& part) { return part.done; })) return moved;
  stream.queue.pop_front();
  ++stream.completed;
  return true;
}

inline bool FakeNccl::advance_part(Part& part) { return collective(part) ? run_collective(part) : run_message(part); }

// Matching operation of another rank at the head of one of its streams.
inline FakeNccl::Part* FakeNccl::active_part(const Group& group, int rank, const std::function<bool(const Part&)>& is) {
  const auto member = group.members.find(rank);
  if (member == group.members.end()) return nullptr;
  Part* found = nullptr;
  for_streams([&](Stream& stream) {
    if (stream.queue.empty()) return;
    for (Part& part : stream.queue.front().parts) {
      if (part.comm == member->second && !part.done && is(part)) found = &part;
    }
  });
  return found;
}

inline bool FakeNccl::run_collective(Part& part) {
  const Group& group = *part.comm->group;
  std::vector<Part*> parts;
  for (int rank = 0; rank < group.world; ++rank) {
    Part* other = active_part(group, rank, [&](const Part& p) { return collective(p) && p.sequence == part.sequence; });
    if (!other) return false;
    parts.push_back(other);
  }
  for (Part* other : parts) {
    const Part& first = *parts[0];
    const bool reduces = first.kind != Kind::broadcast && first.kind != Kind::all_gather;
    if (other->kind != first.kind)
      violate(other->comm->rank, fmt::format("{} where rank 0 has {}", name(other->kind), name(first.kind)));
    else if (other->count != first.count)
      violate(other->comm->rank,
              fmt::format("{} of {} elements, rank 0 of {}", name(other->kind), other->count, first.count));
    else if (other->type != first.type)
      violate(other->comm->rank, fmt::format("{} of another dtype than rank 0's", name(other->kind)));
    else if (reduces && other->reduction != first.reduction)
      violate(other->comm->rank, "another reduction than rank 0's");
    else if (other->root != first.root)
      violate(other->comm->rank, "another root than rank 0's");
    else
      continue;
    for (Part* p : parts) p->done = true;  // wrong data; continue, to see how the backend reacts
    return true;
  }
  if (part.rounds == 0) {
    for (const Part* p : parts) expect_produced(*p);  // the operation starts
  }
  if (++part.rounds < options_.nccl_rounds) return false;
  if (std::none_of(parts.begin(), parts.end(), [](const Part* p) { return p->wild; })) perform(parts);
  for (Part* p : parts) p->done = true;
  return true;
}

inline bool FakeNccl::run_message(Part& part) {
  const Kind other_kind = part.kind == Kind::send ? Kind::recv : Kind::send;
  Part* other = active_part(*part.comm->group, part.root, [&](const Part& p) {
    return p.kind == other_kind && p.root == part.comm->rank && p.sequence == part.sequence;
  });
  if (!other) return false;
  if (part.rounds == 0) expect_produced(part.kind == Kind::send ? part : *other);
  if (++part.rounds < options_.nccl_rounds) return false;
  Part& from = part.kind == Kind::send ? part : *other;
  Part& to = part.kind == Kind::send ? *other : part;
  if (from.count * size_of(from.type) != to.count * size_of(to.type)) {
    violate(to.comm->rank, fmt::format("recv of {} elements, sent were {}", to.count, from.count));
  } else if (!from.wild && !to.wild) {
    std::memmove(to.recv, from.send, from.count * size_of(from.type));
  }
  from.done = to.done = true;
  return true;
}

inline void FakeNccl::reduce_into(const std::vector<Part*>& parts, std::size_t begin, std::size_t count,
                                  std::byte* to) {
  constexpr DType dtypes[] = {DType::i8,  DType::u8,  DType::i32, DType::u32, DType::i64,
                              DType::u64, DType::f16, DType::f32, DType::f64, DType::bf16};
  constexpr ReduceOp reductions[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::mean};
  std::vector<const void*> sources;
  for (const Part* part : parts) sources.push_back(part->send);
  const auto dtype = dtypes[static_cast<int>(parts[0]->type)];
  const auto reduce = reductions[static_cast<int>(parts[0]->reduction)];
  std::vector<std::byte> result(count * size_of(parts[0]->type));
  for (std::size_t i = 0; i < count; i += kReduceBlock) {
    const auto n = static_cast<std::int64_t>(std::min<std::size_t>(kReduceBlock, count - i));
    reduce_block(dtype, reduce, sources, static_cast<std::int64_t>(begin + i), n,
                 result.data() + i * size_of(parts[0]->type));
  }
  std::memcpy(to, result.data(), result.size());
}

inline void FakeNccl::perform(const std::vector<Part*>& parts) {
  const Part& first = *parts[0];
  const std::size_t bytes = first.count * size_of(first.type);
  std::vector<std::vector<std::byte>> results(parts.size());
  switch (first.kind) {
    case Kind::all_reduce:
      results[0].resize(bytes);
      reduce_into(parts, 0, first.count, results[0].data());
      for (Part* part : parts) std::memcpy(part->recv, results[0].data(), bytes);
      return;
    case Kind::reduce: return reduce_into(parts, 0, first.count, parts[at(first.root)]->recv);
    case Kind::reduce_scatter:
      for (std::size_t r = 0; r < parts.size(); ++r) {
        results[r].resize(bytes);
        reduce_into(parts, r * first.count, first.count, results[r].data());
      }
      for (std::size_t r = 0; r < parts.size(); ++r) std::memcpy(parts[r]->recv, results[r].data(), bytes);
      return;
    case Kind::broadcast:
      results[0].assign(parts[at(first.root)]->send, parts[at(first.root)]->send + bytes);
      for (Part* part : parts) std::memcpy(part->recv, results[0].data(), bytes);
      return;
    case Kind::all_gather:
      for (std::size_t r = 0; r < parts.size(); ++r) results[r].assign(parts[r]->send, parts[r]->send + bytes);
      for (Part* part : parts) {
        for (std::size_t r = 0; r < parts.size(); ++r) std::memcpy(part->recv + r * bytes, results[r].data(), bytes);
      }
      return;
    default: return;
  }
}

}  // namespace starling::dist
