#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "starling/dist/comm/comm.h"

namespace starling {

// What the command line says of this process's place among others; what it does not say comes from the environment.
struct ProcessFlags {
  std::optional<int> rank{};
  std::optional<int> world{};
  std::optional<std::string> address{};
};

// Whether this process was started as one of several. Throws where that is told incompletely.
bool among_processes(const ProcessFlags& flags);

// The others, joined; see join_world.
struct Processes {
  std::shared_ptr<const void> world{};  // goes last
  std::shared_ptr<Comm> comm{};
  int here = 1;                                        // of them on this host
  std::function<void(std::int64_t step)> stepped{};    // tells whoever watches them how far this one is
  std::function<void(std::string_view why)> failed{};  // and that it has failed, before the others do
};

// `backend` and `all_reduce`: auto or by name; `check`: compare what ranks ask of each other.
Processes join_processes(const ProcessFlags& flags, const std::string& backend, bool check,
                         const std::string& all_reduce = "auto");

}  // namespace starling
