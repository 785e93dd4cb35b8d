#include "starling/train/ranks/processes.h"

#include "starling/dist/launch/world.h"

namespace starling::train {
namespace {

dist::PlaceFlags place_flags(const ProcessFlags& flags) {
  return {.rank = flags.rank, .world = flags.world, .address = flags.address};
}

}  // namespace

bool among_processes(const ProcessFlags& flags) { return find_place(place_flags(flags)).value().world > 1; }

Processes join_processes(const ProcessFlags& flags, const std::string& backend, bool check,
                         const std::string& all_reduce) {
  WorldOptions options;
  options.backend = backend == "auto" ? "" : backend;
  options.checking = check;
  options.all_reduce = all_reduce == "auto" ? "" : all_reduce;
  const auto world = std::make_shared<const World>(join_world(place_flags(flags), options));
  return {.world = world,
          .comm = world->comm,
          .here = world->place.local_world,
          .stepped = [world](std::int64_t step) { world->report_step(step); },
          .failed = [world](std::string_view why) { world->report_failure(why); }};
}

}  // namespace starling::train
