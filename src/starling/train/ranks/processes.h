#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "starling/dist/comm/comm.h"

namespace starling::train {

// Place of this process in the world, from the command line; values not given come from the environment.
struct ProcessFlags {
  std::optional<int> rank{};
  std::optional<int> world{};
  std::optional<std::string> address{};
};

// True if this process was started as one of several. Throws if that is specified incompletely.
bool among_processes(const ProcessFlags& flags);

// The joined world of processes; see join_world.
struct Processes {
  std::shared_ptr<const void> world{};  // destroyed last
  std::shared_ptr<Comm> comm{};
  int here = 1;                                        // processes on this host
  std::function<void(std::int64_t step)> stepped{};    // reports this process's progress to the supervisor
  std::function<void(std::string_view why)> failed{};  // reports its failure, before the other processes fail
};

// `backend` and `all_reduce`: "auto" or a name; `check`: verify that ranks call matching collectives.
Processes join_processes(const ProcessFlags& flags, const std::string& backend, bool check,
                         const std::string& all_reduce = "auto");

}  // namespace starling::train
