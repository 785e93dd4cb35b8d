#include "starling/dist/launch/heartbeats/exit_watch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "starling/dist/launch/final_message.h"

namespace starling::dist {
namespace {

struct Watch {
  std::mutex mutex;
  std::shared_ptr<void> ties;  // goes after the heartbeats
  std::shared_ptr<HeartbeatSender> heartbeats;
  std::string finding;  // empty: none so far
  bool waits = false;   // the process, for the others to end
};

Watch& watch() {
  static Watch& one = *new Watch;  // leaked: heartbeats go on until the process has ended
  return one;
}

[[noreturn]] void end_with(const std::string& finding) {
  fmt::print(stderr, "starling: {}\n", finding);
  write_failure();
  std::fflush(stderr);
  std::_Exit(1);
}

void found(const std::string& finding) {
  const std::lock_guard lock(watch().mutex);
  watch().finding = finding;
  if (watch().waits) end_with(finding);
}

}  // namespace

std::shared_ptr<HeartbeatSender> watch_until_exit(std::shared_ptr<HeartbeatSender> heartbeats,
                                                  std::shared_ptr<void> ties) {
  HeartbeatSender* const own = heartbeats.get();
  std::shared_ptr<HeartbeatSender> kept = heartbeats;
  {
    const std::lock_guard lock(watch().mutex);
    std::swap(watch().heartbeats, kept);
    std::swap(watch().ties, ties);
    watch().finding.clear();
  }
  kept.reset();  // may wait for its thread, which may be about to tell
  ties.reset();
  return {own, [heartbeats = std::move(heartbeats)](HeartbeatSender*) { heartbeats->leave(found); }};
}

void wait_under_watch() {
  std::shared_ptr<HeartbeatSender> heartbeats;
  {
    const std::lock_guard lock(watch().mutex);
    heartbeats = watch().heartbeats;
  }
  if (heartbeats == nullptr) return;
  heartbeats->leave(found);  // in case that its world is still there
  const std::lock_guard lock(watch().mutex);
  if (!watch().finding.empty()) end_with(watch().finding);
  watch().waits = true;
  heartbeats->wait_for_the_end();
}

}  // namespace starling::dist
