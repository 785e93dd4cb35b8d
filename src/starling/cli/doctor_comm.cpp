#include "starling/cli/doctor_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "starling/cli/cli.h"
#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/probe.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/launcher/supervisor.h"
#include "starling/dist/launch/world.h"

namespace starling::cli {
namespace {

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20) return fmt::format("{} MiB", bytes >> 20);
  return bytes >= 1024 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} B", bytes);
}

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", 1e6 * seconds) : fmt::format("{:.2f} ms", 1e3 * seconds);
}

std::string rate_text(double bytes, double seconds) { return fmt::format("{:.2f} GB/s", 1e-9 * bytes / seconds); }

void print(const dist::CommProbe& probe, const dist::ProbeOptions& options, int ranks, const std::string& where) {
  std::string text = fmt::format("{}, {} ranks\n  {:<12}{:>12}", where, ranks, "pair", "latency");
  for (const auto bytes : options.pair_bytes) text += fmt::format("{:>16}", size_text(bytes));
  for (const auto& pair : probe.pairs) {
    text += fmt::format("\n  {:<12}{:>12}", fmt::format("{} - {}", pair.first, pair.second), time_text(pair.latency));
    for (std::size_t i = 0; i < pair.transfer.size(); ++i)
      text += fmt::format("{:>16}", rate_text(static_cast<double>(options.pair_bytes[i]), pair.transfer[i]));
  }
  text += fmt::format("\n  {:<12}{:>12}{:>16}", "all_reduce", "time", "bus bandwidth");
  for (const auto& [bytes, seconds] : probe.reduces) {
    const double moved = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes);  // bytes each rank must send
    text += fmt::format("\n  {:<12}{:>12}{:>16}", size_text(bytes), time_text(seconds), rate_text(moved, seconds));
  }
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void check_threads(int ranks) {
  const dist::ProbeOptions options;
  const auto comms = make_thread_comms(ranks);
  dist::CommProbe found;
  run_ranks(comms, [&](Comm& comm) {
    dist::CommProbe own = probe(comm, options);
    if (comm.rank() == 0) found = std::move(own);
  });
  print(found, options, ranks, "threads of this process");
}

void check_world(const World& world) {
  const dist::ProbeOptions options;
  const dist::CommProbe found = probe(*world.comm, options);
  if (world.leads()) print(found, options, world.info.world, fmt::format("processes over {}", world.backend));
}

int check_processes(const dist::CommBackend& backend, int ranks) {
  if (!backend.there()) {
    fmt::print("processes over {}: not there: no {}\n", backend.name, backend.missing());
    return kOk;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return dist::launch({.argv = {self, "doctor", "--comm"},
                       .slots = dist::assign_ranks(ranks, {{"", ranks}}).value(),
                       .backend = std::string(backend.name),
                       .prefix = false})
      .code;
}

}  // namespace

int check_comm(const CommCheck& wanted) {
  if (wanted.ranks < 2) throw UsageError(fmt::format("[doctor] expected -n 2 or more, got {}", wanted.ranks));
  const dist::RankInfo info = as_usage([] { return dist::find_rank_info({}).value(); });
  if (info.world > 1) {
    check_world(join_world({}, {.backend = wanted.backend, .checking = false}));
    return kOk;
  }
  const bool all = wanted.backend.empty(), threads = wanted.backend == "threads";
  const auto* chosen = all || threads ? nullptr : as_usage([&] { return dist::find_backend(wanted.backend); });
  if (chosen != nullptr && chosen->brings_ranks()) {
    throw UsageError(fmt::format("[doctor] expected {} to start ranks over {}: {} -n 2 starling doctor --comm",
                                 chosen->starters_text(), chosen->name, chosen->starters.front()));
  }
  if (all || threads) check_threads(wanted.ranks);
  int code = kOk;
  for (const auto& backend : dist::comm_backends().in_order()) {
    const bool asked = &backend == chosen || (all && dist::for_launchers(backend));
    if (asked) code = std::max(code, check_processes(backend, wanted.ranks));
  }
  return code;
}

}  // namespace starling::cli
