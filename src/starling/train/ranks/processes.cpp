#include "starling/train/ranks/processes.h"

#include "starling/dist/launch/world.h"

namespace starling::train {

bool among_processes(const dist::ProcessFlags& flags) { return find_rank_info(flags).value().world > 1; }

Processes join_processes(const dist::ProcessFlags& flags, const std::string& backend, bool check,
                         const std::string& all_reduce) {
  WorldOptions options;
  options.backend = backend == "auto" ? "" : backend;
  options.checking = check;
  options.all_reduce = all_reduce == "auto" ? "" : all_reduce;
  const auto world = std::make_shared<const World>(join_world(flags, options));
  return {.world = world,
          .comm = world->comm,
          .here = world->info.local_world,
          .stepped = [world](std::int64_t step) { world->report_step(step); },
          .failed = [world](std::string_view why) { world->report_failure(why); }};
}

}  // namespace starling::train
