#include "starling/train/ranks/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "starling/base/result.h"
#include "starling/dist/launch/heartbeats/heartbeat_sender.h"
#include "starling/dist/launch/world.h"
#include "starling/train/loop/interrupt.h"

namespace starling::train {

namespace {

// A rank that is asked to stop while it waits for others has nothing to save; nor has one that fails for their leaving.
std::shared_ptr<const World> join_unless_stopped(const dist::ProcessFlags& flags, const WorldOptions& options) {
  try {
    return std::make_shared<const World>(join_world(flags, options));
  } catch (const Error& error) {
    if (!options.stop || !options.stop()) throw;
    throw Interrupted(fmt::format("[train] interrupted while ranks were joining: {}", error.what()));
  }
}

constexpr const char* kProblem = "train/problem";        // key of what rank 0 tells
constexpr std::chrono::milliseconds kFirstSpeaks{5000};  // ranks read the same files in about the same time

bool told_by_first(const World& world, const std::string& problem) {
  const auto heard = attempt([&] {
    if (world.leads()) world.store->set(kProblem, problem);
    return world.leads() ? "" : world.store->get(kProblem, kFirstSpeaks);
  });
  return !world.leads() && heard && *heard == problem;
}

constexpr std::chrono::milliseconds kShortestJoin{10'000};  // processes start one after another

// At least 1 unless the seconds are 0, which stands for none.
std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

bool among_processes(const dist::ProcessFlags& flags) { return find_rank_info(flags).value().world > 1; }

Processes join_processes(const dist::ProcessFlags& flags, const JoinOptions& options) {
  WorldOptions how;
  how.backend = options.backend == "auto" ? "" : options.backend;
  how.checking = options.check;
  how.all_reduce = options.all_reduce == "auto" ? "" : options.all_reduce;
  how.stop = options.stop;
  how.heartbeat = milliseconds_of(options.heartbeat);
  how.deadline = milliseconds_of(options.deadline);
  if (how.deadline.count() > 0) how.join_deadline = std::clamp(how.deadline, kShortestJoin, how.join_deadline);
  const auto world = join_unless_stopped(flags, how);
  return {.world = world,
          .comm = world->comm,
          .here = world->info.local_world,
          .stepped = [world](std::int64_t step) { world->report_step(step); },
          .failed = [world](std::string_view why) { world->report_failure(why); },
          .told_by_first = [world](const std::string& problem) { return told_by_first(*world, problem); },
          .take_role =
              [world](const std::string& role, bool spare) {
                if (world->heartbeats) world->heartbeats->take_role(role, spare);
              },
          .part = [world, how](const std::string& name, int rank,
                               int size) { return world->part({.rank = rank, .world = size}, name, how); },
          .local_rank = world->info.local_rank,
          .finding = [world] { return world->heartbeats ? world->heartbeats->finding() : ""; }};
}

}  // namespace starling::train
