// NCCL part of FakeNccl: communicators, groups, operations. Included by fake_nccl.h.
#pragma once

namespace starling::dist {

// ---- communicators

inline NcclResult FakeNccl::init_rank(int rank, NcclHandle& handle, int world, const NcclId& id) {
  const std::string key(id.bytes.data(), id.bytes.size());
  const auto known = by_id_.find(key);
  if (known == by_id_.end()) return violate(rank, "init with an id that nobody made");
  for (const auto& [other, group] : by_id_) {
    if (other != key && !group->members.empty() && group->members.size() < at(group->world)) {
      return violate(rank, "init with another id than the ranks that wait");
    }
  }
  Group& group = *known->second;
  if (group.world != 0 && group.world != world) return violate(rank, "init with another number of ranks");
  if (group.members.contains(rank)) return violate(rank, "init of a rank that has joined already");
  group.world = world;
  handle = add_comm(rank, rank, known->second);
  return NcclResult::in_progress;
}

inline NcclResult FakeNccl::split(int rank, NcclHandle handle, int color, int key, NcclHandle& part) {
  Communicator* comm = live(rank, handle, "split");
  if (!comm) return NcclResult::invalid_usage;
  if (outstanding(comm)) return violate(rank, "split of a communicator with operations outstanding");
  const std::uint64_t number = ++comm->splits;
  auto& calls = comm->group->splits[number];
  calls[comm->rank] = {color, key};
  comm->polls = options_.launch_polls;
  part = nullptr;
  if (color != kNcclNoColor) {
    auto& group = comm->group->parts[{number, color}];
    if (!group) group = std::make_shared<Group>();
    // Ranks are numbered once all have called; until then the parent's rank is used.
    part = add_comm(rank, comm->rank, group);
  }
  if (calls.size() < at(comm->group->world)) return NcclResult::in_progress;
  std::map<int, std::vector<std::array<int, 2>>> by_color;
  for (const auto& [r, c] : calls) by_color[c[0]].push_back({c[1], r});
  for (auto& [c, members] : by_color) {
    if (c == kNcclNoColor) continue;
    std::stable_sort(members.begin(), members.end());
    Group& made = *comm->group->parts[{number, c}];
    auto unsorted = std::exchange(made.members, {});
    for (std::size_t i = 0; i < members.size(); ++i) {
      Communicator* member = unsorted[members[i][1]];
      member->rank = static_cast<int>(i);
      made.members[static_cast<int>(i)] = member;
    }
    made.world = static_cast<int>(members.size());
  }
  return NcclResult::in_progress;
}

inline NcclResult FakeNccl::async_error(int rank, NcclHandle handle, NcclResult& state) {
  progress(rank);
  Communicator* comm = live(rank, handle, "async_error");
  if (!comm) return NcclResult::invalid_usage;
  state = options_.async_fault;
  if (state != NcclResult::success) return NcclResult::success;
  const bool together = comm->group->world > 0 && comm->group->members.size() == at(comm->group->world);
  const auto calls = comm->group->splits.find(comm->splits);
  const bool splitting = calls != comm->group->splits.end() && calls->second.size() < at(comm->group->world);
  if (!together || splitting || comm->polls > 0) state = NcclResult::in_progress;
  if (together && !splitting && comm->polls > 0) --comm->polls;
  return NcclResult::success;
}

inline bool FakeNccl::outstanding(const Communicator* comm) const {
  const auto uses = [&](const Stream& stream) {
    return std::any_of(stream.queue.begin(), stream.queue.end(), [&](const Task& task) {
      return std::any_of(task.parts.begin(), task.parts.end(), [&](const Part& part) { return part.comm == comm; });
    });
  };
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& s) { return uses(*s); }) ||
         std::any_of(defaults_.begin(), defaults_.end(), [&](const auto& s) { return uses(*s.second); });
}

inline NcclResult FakeNccl::finalize(int rank, NcclHandle handle) {
  Communicator* comm = live(rank, handle, "finalize");
  if (!comm) return NcclResult::invalid_usage;
  comm->finalized = true;
  return NcclResult::in_progress;
}

inline NcclResult FakeNccl::destroy(int rank, NcclHandle handle) {
  progress(rank);
  Communicator* comm = live(rank, handle, "destroy");
  if (!comm) return NcclResult::invalid_usage;
  if (!comm->finalized) violate(rank, "destroy without finalize");
  if (outstanding(comm)) violate(rank, "destroy with operations outstanding");
  comm->dead = true;
  return NcclResult::success;
}

inline NcclResult FakeNccl::abort(int rank, NcclHandle handle) {
  Communicator* comm = live(rank, handle, "abort");
  if (!comm) return NcclResult::invalid_usage;
  comm->dead = true;
  for_streams([&](Stream& stream) {
    for (Task& task : stream.queue) {
      for (Part& part : task.parts) part.done |= part.comm == comm;
    }
  });
  progress(rank);
  return NcclResult::success;
}

// ---- operations

inline NcclResult FakeNccl::add(int rank, NcclHandle handle, DeviceStream stream, Part part) {
  Communicator* comm = live(rank, handle, name(part.kind));
  if (!comm) return NcclResult::invalid_usage;
  if (comm->finalized) return violate(rank, fmt::format("{} after finalize", name(part.kind)));
  part.comm = comm;
  if (part.root >= comm->group->world) return violate(rank, fmt::format("{} with rank {}", name(part.kind), part.root));
  part.sequence = part.kind == Kind::send   ? ++comm->sent[part.root]
                  : part.kind == Kind::recv ? ++comm->received[part.root]
                                            : ++comm->collectives;
  expect_memory(rank, part);
  note_handed(rank, part);
  Stream* on = stream_of(rank, stream);
  if (depth_[at(rank)] > 0) {
    grouped_[at(rank)].push_back({on, part});
    return NcclResult::success;
  }
  if (!collective(part)) violate(rank, fmt::format("{} outside a group", name(part.kind)));
  comm->polls = options_.launch_polls;
  Task task;
  task.parts.push_back(part);
  submit(rank, on, std::move(task));
  return NcclResult::in_progress;
}

inline NcclResult FakeNccl::group_end(int rank) {
  if (depth_[at(rank)] == 0) return violate(rank, "group_end without group_start");
  if (--depth_[at(rank)] > 0) return NcclResult::success;
  std::map<Stream*, Task> tasks;
  for (auto& [stream, part] : grouped_[at(rank)]) {
    part.comm->polls = options_.launch_polls;
    tasks[stream].parts.push_back(part);
  }
  grouped_[at(rank)].clear();
  for (auto& [stream, task] : tasks) submit(rank, stream, std::move(task));
  return tasks.empty() ? NcclResult::success : NcclResult::in_progress;
}

inline std::vector<FakeNccl::Range> FakeNccl::ranges(const Part& part, bool written) const {
  const std::size_t bytes = part.count * size_of(part.type);
  const auto world = at(part.comm->group->world);
  const bool root = part.comm->rank == part.root;
  const std::size_t sent = part.kind == Kind::reduce_scatter ? bytes * world : bytes;
  const std::size_t received = part.kind == Kind::all_gather ? bytes * world : bytes;
  const bool sends = part.kind != Kind::recv && !(part.kind == Kind::broadcast && !root);
  const bool receives = part.kind != Kind::send && !(part.kind == Kind::reduce && !root);
  if (written) return receives ? std::vector<Range>{{part.recv, received}} : std::vector<Range>{};
  return sends ? std::vector<Range>{{part.send, sent}} : std::vector<Range>{};
}

inline void FakeNccl::note_handed(int rank, const Part& part) {
  const bool message = part.kind == Kind::send || part.kind == Kind::recv, root = part.comm->rank == part.root;
  const bool word = part.kind == Kind::all_reduce && part.count == 1;
  if (part.comm->group->world == 1 || word || (message && root)) return;
  Handed& handed = handed_[rank];
  ++handed.calls;
  for (const Range& range : ranges(part, false)) handed.read += part.kind == Kind::reduce && root ? 0 : range.bytes;
  for (const Range& range : ranges(part, true))
    handed.written += part.kind == Kind::broadcast && root ? 0 : range.bytes;
}

inline void FakeNccl::expect_memory(int rank, Part& part) {
  if (!options_.own_memory) return;
  for (bool written : {false, true}) {
    for (const Range& range : ranges(part, written)) {
      const bool inside = std::any_of(memory_.begin(), memory_.end(), [&](const auto& entry) {
        const auto& bytes = *entry.second.second;
        return entry.second.first == rank && range.begin >= bytes.data() &&
               range.begin + range.bytes <= bytes.data() + bytes.size();
      });
      part.wild |= !inside;
      if (!inside) violate(rank, fmt::format("{} of {} bytes beyond its buffer", name(part.kind), range.bytes));
    }
  }
}

// An operation that starts on the device must not overtake the kernels that make its input.
inline void FakeNccl::expect_produced(const Part& part) {
  for_streams([&](Stream& stream) {
    for (const Task& task : stream.queue) {
      if (!task.body) continue;
      for (const Range& range : ranges(part, false)) {
        if (range.meets({task.data, task.bytes})) {
          violate(stream.rank, fmt::format("{} reads its buffer before it is written", name(part.kind)));
        }
      }
    }
  });
}

inline void FakeNccl::submit(int, Stream* stream, Task task) {
  stream->queue.push_back(std::move(task));
  ++stream->submitted;
}

inline void FakeNccl::kernel(int rank, DeviceStream handle, void* data, std::size_t bytes, std::function<void()> body) {
  touch(rank, data, bytes, "written by a kernel");
  std::scoped_lock lock(mutex_);
  Task task;
  task.body = std::move(body);
  task.rounds = options_.kernel_rounds;
  task.data = static_cast<std::byte*>(data);
  task.bytes = bytes;
  submit(rank, stream_of(rank, handle), std::move(task));
}

inline void FakeNccl::touch(int rank, const void* data, std::size_t bytes, const char* how) {
  std::scoped_lock lock(mutex_);
  const Range touched{static_cast<const std::byte*>(data), bytes};
  for_streams([&](Stream& stream) {
    for (const Task& task : stream.queue) {
      for (const Part& part : task.parts) {
        if (part.done || part.comm->dead) continue;
        for (bool written : {false, true}) {
          for (const Range& range : ranges(part, written)) {
            if (range.meets(touched)) {
              violate(rank, fmt::format("buffer {} while its {} is outstanding", how, name(part.kind)));
            }
          }
        }
      }
    }
  });
}

}  // namespace starling::dist
