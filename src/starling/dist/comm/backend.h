#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/launch/rank_info.h"

namespace starling {
class Store;
}

namespace starling::dist {

// Arguments from which a backend makes the communicator of one rank.
struct BackendOptions {
  int rank = 0;
  int world = 1;
  std::string label = "world";
  std::uint64_t epoch = 0;
  std::chrono::milliseconds join_deadline{60'000};
  std::chrono::milliseconds call_deadline{300'000};
  std::shared_ptr<RankProgress> rank_progress{};  // of this rank, if it is supervised
  std::function<bool()> stop{};                   // polled while ranks connect; true: throws Error; null: never
  std::string all_reduce{};                       // algorithm name; empty: any; never set for one_host
  std::string listen = "127.0.0.1";               // address of this host for the others
};

// Backend between processes: all that worlds, jobs and commands know of it. A file of comm/kinds registers one; CMake
// calls its register_comm_<file>(CommBackends&).
struct CommBackend {
  std::string_view name;   // in jobs and options
  std::string_view title;  // for messages: "Gloo (TCP)"
  int order = 0;           // in lists; of several that would do, the automatic choice is the smallest
  bool one_host = false;   // connects processes of one host, in memory, where all-reduces take no algorithm
  // Name of the library that this build or machine lacks, and what brings it; empty: it is there. Null: always there.
  std::string (*missing)() = nullptr;
  // Collective. The store is used by nothing else; null for a backend with starters. A null function: the backend
  // connects the memory of GPUs, beside the automatic one for host memory.
  std::unique_ptr<Comm> (*make)(const std::shared_ptr<Store>& store, const BackendOptions& options) = nullptr;

  // Backends whose ranks are started by programs of their own (mpirun) and need no rendezvous to find each other.
  std::vector<std::string_view> starters{};
  // True if such a program started this process; null: none can be told.
  bool (*started)(const RankInfo& info, const Variables& variables) = nullptr;
  // Registers a function to call once, when a process that is about to exit begins to wait for the others; null: none
  // waits.
  void (*when_waiting_at_exit)(std::function<void()> called) = nullptr;

  bool there() const { return missing == nullptr || missing().empty(); }
  bool brings_ranks() const { return !starters.empty(); }
  bool is_for_devices() const { return make == nullptr; }
  std::string starters_text() const;  // "mpirun or srun"
};

class CommBackends {
 public:
  void add(const CommBackend& backend);  // throws if its name or its place is taken
  const std::vector<CommBackend>& in_order() const { return backends_; }

 private:
  std::vector<CommBackend> backends_;
};

const CommBackends& comm_backends();  // made from the files in comm/kinds

// Names of the backends between processes that `which` keeps, in order; null: all of them. Choices begin with "auto".
std::vector<std::string> backend_names(bool (*which)(const CommBackend&) = nullptr);
std::vector<std::string> backend_choices(bool (*which)(const CommBackend&) = nullptr);
std::vector<std::string> device_backend_names();            // those that connect the memory of GPUs
bool for_launchers(const CommBackend& backend);             // ranks can be started by `starling launch`
std::string either(const std::vector<std::string>& names);  // "auto, shared or gloo"

// Backend between processes of that name; null for "auto" and "". An unknown name throws Error with all names.
const CommBackend* find_backend(std::string_view name);

// Name of a backend, or auto, as an option of jobs.
struct BackendChoice {
  std::string name = "auto";
  std::string between_processes() const;  // auto where it names one of devices
};

}  // namespace starling::dist

namespace starling::detail {

template <>
struct SettingType<dist::BackendChoice> {
  static nlohmann::json schema(SettingRange range);
  static dist::BackendChoice read(const ConfigNode& node, SettingRange range);
  static nlohmann::json json(const dist::BackendChoice& value);
};

}  // namespace starling::detail
