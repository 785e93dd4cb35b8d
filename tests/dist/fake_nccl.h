// Simulated NCCL with a GPU per rank: streams run in order but late, collectives end when all ranks have joined, and
// whatever would cause wrong results, a hang or a crash on a real device is recorded as a violation.
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

#include "starling/dist/comm/gpu/nccl_api.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {

class FakeNccl {
 public:
  struct Options {
    bool own_memory = true;                        // buffers must come from allocate(); false: any memory is accepted
    int launch_polls = 2;                          // times that async_error returns in_progress after a launch
    int kernel_rounds = 3;                         // polls of its rank before a kernel at the head of its stream ends
    int nccl_rounds = 40;                          // polls before an operation that all ranks have joined ends
    bool hangs = false;                            // operations never end
    NcclResult async_fault = NcclResult::success;  // result of async_error for every communicator
  };

  FakeNccl(int world, Options options) : world_(world), options_(options), depth_(at(world)), grouped_(at(world)) {}
  explicit FakeNccl(int world) : FakeNccl(world, Options()) {}

  NcclApi api(int rank);

  // A kernel on the rank's device: runs body later, in stream order, and writes these bytes.
  void kernel(int rank, DeviceStream stream, void* data, std::size_t bytes, std::function<void()> body);
  // Access of device memory by the rank's host (as a copy): nothing may be in flight there.
  void touch(int rank, const void* data, std::size_t bytes, const char* how);

  void set_fault(NcclResult fault) {
    std::scoped_lock lock(mutex_);
    options_.async_fault = fault;
  }
  DeviceStream default_stream(int rank) {
    std::scoped_lock lock(mutex_);
    return stream_of(rank, nullptr);
  }

  // Traffic that a rank has handed over for others so far, but for single words, as barriers reduce: counted from
  // buffers.
  struct Handed {
    std::size_t read = 0, written = 0, calls = 0;
  };
  Handed handed(int rank) const {
    std::scoped_lock lock(mutex_);
    const auto found = handed_.find(rank);
    return found == handed_.end() ? Handed() : found->second;
  }

  // Violations so far, and leaks once all ranks have ended.
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
    int polls = 0;            // remaining in_progress results
    bool joined_all = false;  // init or split has completed on all ranks
    std::uint64_t collectives = 0, splits = 0;
    std::map<int, std::uint64_t> sent, received;
  };
  struct Group {
    int world = 0;
    std::map<int, Communicator*> members;
    std::map<std::uint64_t, std::map<int, std::array<int, 2>>> splits;  // by split number: color and key per rank
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
    int root = -1;  // root or peer
    Communicator* comm = nullptr;
    std::uint64_t sequence = 0;
    bool done = false;
    bool wild = false;  // out of bounds: not executed
    int rounds = 0;
  };

  struct Stream;
  struct Task {
    std::vector<Part> parts;     // calls of an NCCL group
    std::function<void()> body;  // body of a kernel
    int rounds = 0;
    std::byte* data = nullptr;  // memory that a kernel writes
    std::size_t bytes = 0;
    Stream* awaited = nullptr;  // stream of the awaited event
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
  void note_handed(int rank, const Part& part);
  void expect_produced(const Part& part);
  void progress(int rank);
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
  std::vector<std::unique_ptr<std::vector<std::byte>>> freed_;  // kept, so that use after free is detected and harmless
  std::map<int, Handed> handed_;
  std::vector<int> depth_;  // group nesting depth, by rank
  std::vector<std::vector<std::pair<Stream*, Part>>> grouped_;
};

}  // namespace starling::dist

#include "dist/fake_nccl_calls.h"
#include "dist/fake_nccl_device.h"

namespace starling::dist {

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

}  // namespace starling::dist
