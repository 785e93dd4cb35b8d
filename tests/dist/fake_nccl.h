// NCCL and a GPU per rank, simulated: streams run in order but late, collectives end when all ranks have come to them,
// and whatever a real device would punish with wrong results, a hang or a crash is written down as a violation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "starling/dist/comm/nccl_api.h"
#include "starling/dist/comm/reduce.h"

namespace starling {

class FakeNccl {
 public:
  struct Options {
    bool own_memory = true;                        // buffers must come from allocate(); false: any memory of the test
    int launch_polls = 2;                          // async_error says in_progress this often after a launch
    int kernel_rounds = 3;                         // looks at the device before a kernel at the head of its stream ends
    int nccl_rounds = 40;                          // and before an operation that all ranks have come to does
    bool hangs = false;                            // operations never end
    NcclResult async_fault = NcclResult::success;  // what async_error says of every communicator
  };

  FakeNccl(int world, Options options) : world_(world), options_(options), depth_(at(world)), grouped_(at(world)) {}
  explicit FakeNccl(int world) : FakeNccl(world, Options()) {}

  NcclApi api(int rank);

  // The rank's own work on its device: runs body later, in order with the stream, and writes these bytes.
  void kernel(int rank, DeviceStream stream, void* data, std::size_t bytes, std::function<void()> body);
  // The rank's host touches device memory (as a copy would): nothing may be under way there.
  void touch(int rank, const void* data, std::size_t bytes, const char* how);

  void set_fault(NcclResult fault) {
    std::scoped_lock lock(mutex_);
    options_.async_fault = fault;
  }
  DeviceStream default_stream(int rank) {
    std::scoped_lock lock(mutex_);
    return stream_of(rank, nullptr);
  }

  // What went wrong, and, when all ranks have ended, what was left behind.
  std::vector<std::string> violations() const {
    std::scoped_lock lock(mutex_);
    return violations_;
  }
  std::vector<std::string> violations_at_end();

 private:
  enum class Kind { all_reduce, broadcast, reduce, reduce_scatter, all_gather, send, recv };

  struct Group;
  struct Communicator {
    int rank = 0;
    std::shared_ptr<Group> group;
    bool dead = false, finalized = false;
    int polls = 0;            // that still say in_progress
    bool joined_all = false;  // of init and split
    std::uint64_t collectives = 0, splits = 0;
    std::map<int, std::uint64_t> sent, received;
  };
  struct Group {
    int world = 0;
    std::map<int, Communicator*> members;
    std::map<std::uint64_t, std::map<int, std::array<int, 2>>> splits;  // by number: color and key, by rank
    std::map<std::pair<std::uint64_t, int>, std::shared_ptr<Group>> parts;
  };

  // One NCCL call of one rank.
  struct Part {
    Kind kind;
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::size_t count = 0;
    NcclType type = NcclType::u8;
    NcclReduction reduction = NcclReduction::sum;
    int root = -1;  // or peer
    Communicator* comm = nullptr;
    std::uint64_t sequence = 0;
    bool done = false;
    bool wild = false;  // beyond its buffer: not to be run
    int rounds = 0;
  };

  struct Stream;
  struct Task {
    std::vector<Part> parts;     // of a group of NCCL calls
    std::function<void()> body;  // of a kernel
    int rounds = 0;
    std::byte* data = nullptr;  // that a kernel writes
    std::size_t bytes = 0;
    Stream* awaited = nullptr;  // of a wait for an event
    std::uint64_t position = 0;
  };
  struct Stream {
    int rank = 0;
    bool freed = false;
    std::deque<Task> queue;
    std::uint64_t submitted = 0, completed = 0;
  };
  struct Event {
    bool freed = false;
    Stream* stream = nullptr;
    std::uint64_t position = 0;
  };
  struct Range {
    const std::byte* begin;
    std::size_t bytes;
    bool meets(const Range& other) const {
      return bytes > 0 && other.bytes > 0 && begin < other.begin + other.bytes && other.begin < begin + bytes;
    }
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static std::size_t size_of(NcclType type) {
    constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return sizes[static_cast<int>(type)];
  }
  static const char* name(Kind kind) {
    constexpr const char* names[] = {"all_reduce", "broadcast", "reduce", "reduce_scatter",
                                     "all_gather", "send",      "recv"};
    return names[static_cast<int>(kind)];
  }
  static bool collective(const Part& part) { return part.kind != Kind::send && part.kind != Kind::recv; }

  NcclResult violate(int rank, const std::string& what) {
    violations_.push_back(fmt::format("rank {}: {}", rank, what));
    return NcclResult::invalid_usage;
  }

  Communicator* live(int rank, NcclHandle handle, const char* what) {
    const auto found = comms_.find(handle);
    if (found == comms_.end() || found->second->rank_in_device != rank) {
      violate(rank, fmt::format("{} of a communicator that is not this rank's", what));
      return nullptr;
    }
    if (found->second->comm.dead) {
      violate(rank, fmt::format("{} of a communicator that was destroyed or aborted", what));
      return nullptr;
    }
    return &found->second->comm;
  }

  struct Owned {
    int rank_in_device = 0;
    Communicator comm;
  };

  NcclHandle add_comm(int device, int rank, std::shared_ptr<Group> group) {
    auto owned = std::make_unique<Owned>();
    owned->rank_in_device = device;
    owned->comm.rank = rank;
    owned->comm.group = std::move(group);
    NcclHandle handle = owned.get();
    owned->comm.group->members[rank] = &owned->comm;
    comms_[handle] = std::move(owned);
    return handle;
  }

  Stream* stream_of(int rank, DeviceStream handle) {
    if (handle == nullptr) {
      auto& mine = defaults_[rank];
      if (!mine) {
        mine = std::make_unique<Stream>();
        mine->rank = rank;
      }
      return mine.get();
    }
    auto* stream = static_cast<Stream*>(handle);
    if (stream->freed) violate(rank, "use of a stream that was freed");
    if (stream->rank != rank) violate(rank, "use of a stream of another rank's device");
    return stream;
  }

  NcclResult init_rank(int rank, NcclHandle& handle, int world, const NcclId& id);
  NcclResult split(int rank, NcclHandle handle, int color, int key, NcclHandle& part);
  NcclResult async_error(int rank, NcclHandle handle, NcclResult& state);
  NcclResult finalize(int rank, NcclHandle handle);
  NcclResult destroy(int rank, NcclHandle handle);
  NcclResult abort(int rank, NcclHandle handle);
  NcclResult group_end(int rank);
  NcclResult add(int rank, NcclHandle handle, DeviceStream stream, Part part);
  void record(int rank, DeviceEvent event, DeviceStream stream);
  bool passed(int rank, DeviceEvent event);
  void stream_wait(int rank, DeviceStream stream, DeviceEvent event);
  void* allocate(int rank, std::size_t bytes);
  void free(int rank, void* data);

  void expect_closed_group(int rank, const char* what) {
    if (depth_[at(rank)] > 0) violate(rank, fmt::format("{} while a group is open", what));
  }
  bool outstanding(const Communicator* comm) const;
  void submit(int rank, Stream* stream, Task task);
  std::vector<Range> ranges(const Part& part, bool written) const;
  void expect_memory(int rank, Part& part);
  void expect_produced(const Part& part);
  void progress();
  bool advance(Stream& stream);
  bool advance_part(Part& part);
  Part* active_part(const Group& group, int rank, const std::function<bool(const Part&)>& is);
  bool run_collective(Part& part);
  bool run_message(Part& part);
  void perform(const std::vector<Part*>& parts);
  void reduce_into(const std::vector<Part*>& parts, std::size_t begin, std::size_t count, std::byte* to);

  template <class Body>
  void for_streams(Body body) {
    for (auto& [rank, stream] : defaults_) body(*stream);
    for (auto& stream : streams_) body(*stream);
  }

  const int world_;
  Options options_;
  mutable std::mutex mutex_;
  std::vector<std::string> violations_;
  std::map<std::string, std::shared_ptr<Group>> by_id_;
  int ids_ = 0;
  std::map<NcclHandle, std::unique_ptr<Owned>> comms_;
  std::map<int, std::unique_ptr<Stream>> defaults_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::map<void*, std::pair<int, std::unique_ptr<std::vector<std::byte>>>> memory_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> freed_;  // kept, so that late use is seen and harmless
  std::vector<int> depth_;                                      // of groups, by rank
  std::vector<std::vector<std::pair<Stream*, Part>>> grouped_;
};

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
    // Ranks are numbered when all have called; until then the part is known by the rank here.
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
  progress();
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
  progress();
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
  progress();
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
  progress();
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
    progress();
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

inline void FakeNccl::progress() {
  if (options_.hangs) return;
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
    if (--task.rounds > 0) return false;
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

// The part of another rank that is at the head of a stream of it.
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
    for (Part* p : parts) p->done = true;  // wrong data; going on shows what the backend does
    return true;
  }
  if (part.rounds == 0) {
    for (const Part* p : parts) expect_produced(*p);  // it starts
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
  constexpr CommReduce reductions[] = {CommReduce::sum, CommReduce::product, CommReduce::max, CommReduce::min,
                                       CommReduce::mean};
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

inline std::vector<std::string> FakeNccl::violations_at_end() {
  std::scoped_lock lock(mutex_);
  for (const auto& [handle, owned] : comms_) {
    if (!owned->comm.dead) violate(owned->rank_in_device, "a communicator was left behind");
  }
  for (const auto& stream : streams_) {
    if (!stream->freed) violate(stream->rank, "a stream was left behind");
  }
  const auto kept = [](const auto& event) { return !event->freed; };
  if (std::any_of(events_.begin(), events_.end(), kept)) violate(-1, "an event was left behind");
  for (const auto& [address, entry] : memory_) violate(entry.first, "memory was left behind");
  for (std::size_t r = 0; r < depth_.size(); ++r) {
    if (depth_[r] > 0) violate(static_cast<int>(r), "a group was left open");
  }
  return violations_;
}

inline NcclApi FakeNccl::api(int rank) {
  NcclApi api;
  const auto locked = [this](auto body) {
    return [this, body](auto&&... arguments) {
      std::scoped_lock lock(mutex_);
      return body(std::forward<decltype(arguments)>(arguments)...);
    };
  };
  api.get_unique_id = locked([this](NcclId& id) {
    const std::string text = fmt::format("id {}", ++ids_);
    std::copy(text.begin(), text.end(), id.bytes.begin());
    by_id_[std::string(id.bytes.data(), id.bytes.size())] = std::make_shared<Group>();
    return NcclResult::success;
  });
  api.init_rank = locked([this, rank](NcclHandle& handle, int world, const NcclId& id, int who) {
    if (who != rank) violate(rank, "init as another rank");
    return init_rank(rank, handle, world, id);
  });
  api.split =
      locked([this, rank](NcclHandle c, int color, int key, NcclHandle& p) { return split(rank, c, color, key, p); });
  api.async_error = locked([this, rank](NcclHandle c, NcclResult& state) { return async_error(rank, c, state); });
  api.finalize = locked([this, rank](NcclHandle c) { return finalize(rank, c); });
  api.destroy = locked([this, rank](NcclHandle c) { return destroy(rank, c); });
  api.abort = locked([this, rank](NcclHandle c) { return abort(rank, c); });
  api.error_text = [](NcclResult result, NcclHandle) { return fmt::format("fake error {}", static_cast<int>(result)); };
  api.group_start = locked([this, rank] {
    ++depth_[at(rank)];
    return NcclResult::success;
  });
  api.group_end = locked([this, rank] { return group_end(rank); });
  using S = const void*;
  const auto part = [](Kind kind, S send, void* recv, std::size_t count, NcclType type, NcclReduction r, int root) {
    return Part{.kind = kind,
                .send = static_cast<const std::byte*>(send),
                .recv = static_cast<std::byte*>(recv),
                .count = count,
                .type = type,
                .reduction = r,
                .root = root};
  };
  constexpr auto kNone = NcclReduction::sum;
  api.all_reduce =
      locked([=, this](S s, void* r, std::size_t n, NcclType t, NcclReduction o, NcclHandle c, DeviceStream on) {
        return add(rank, c, on, part(Kind::all_reduce, s, r, n, t, o, -1));
      });
  api.broadcast = locked([=, this](S s, void* r, std::size_t n, NcclType t, int root, NcclHandle c, DeviceStream on) {
    return add(rank, c, on, part(Kind::broadcast, s, r, n, t, kNone, root));
  });
  api.reduce = locked([=, this](S s, void* r, std::size_t n, NcclType t, NcclReduction o, int root, NcclHandle c,
                                DeviceStream on) { return add(rank, c, on, part(Kind::reduce, s, r, n, t, o, root)); });
  api.reduce_scatter =
      locked([=, this](S s, void* r, std::size_t n, NcclType t, NcclReduction o, NcclHandle c, DeviceStream on) {
        return add(rank, c, on, part(Kind::reduce_scatter, s, r, n, t, o, -1));
      });
  api.all_gather = locked([=, this](S s, void* r, std::size_t n, NcclType t, NcclHandle c, DeviceStream on) {
    return add(rank, c, on, part(Kind::all_gather, s, r, n, t, kNone, -1));
  });
  api.send = locked([=, this](S s, std::size_t n, NcclType t, int peer, NcclHandle c, DeviceStream on) {
    return add(rank, c, on, part(Kind::send, s, nullptr, n, t, kNone, peer));
  });
  api.recv = locked([=, this](void* r, std::size_t n, NcclType t, int peer, NcclHandle c, DeviceStream on) {
    return add(rank, c, on, part(Kind::recv, nullptr, r, n, t, kNone, peer));
  });
  api.make_stream = locked([this, rank]() -> DeviceStream {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->rank = rank;
    return streams_.back().get();
  });
  api.free_stream = locked([this, rank](DeviceStream s) { stream_of(rank, s)->freed = true; });
  api.make_event = locked([this]() -> DeviceEvent {
    events_.push_back(std::make_unique<Event>());
    return events_.back().get();
  });
  api.free_event = locked([this, rank](DeviceEvent e) {
    if (std::exchange(static_cast<Event*>(e)->freed, true)) violate(rank, "an event was freed twice");
  });
  api.record = locked([this, rank](DeviceEvent e, DeviceStream s) { record(rank, e, s); });
  api.passed = locked([this, rank](DeviceEvent e) { return passed(rank, e); });
  api.stream_wait = locked([this, rank](DeviceStream s, DeviceEvent e) { stream_wait(rank, s, e); });
  api.allocate = locked([this, rank](std::size_t bytes) { return allocate(rank, bytes); });
  api.free = [this, rank](void* data) { free(rank, data); };
  return api;
}

}  // namespace starling
