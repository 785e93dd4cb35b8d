#include "starling/dist/launch/launcher/supervisor.h"

#include <fmt/format.h>

#include <csignal>

#include "starling/dist/launch/launcher/rank_watch.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/secret.h"
#include "starling/dist/launch/store/store_server.h"

namespace starling::dist {
namespace {

// Ignores SIGPIPE: readers of our output and remote shells may vanish, which failing writes report.
class IgnoringPipeSignals {
 public:
  IgnoringPipeSignals() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~IgnoringPipeSignals() { std::signal(SIGPIPE, before_); }
  IgnoringPipeSignals(const IgnoringPipeSignals&) = delete;
  IgnoringPipeSignals& operator=(const IgnoringPipeSignals&) = delete;

 private:
  void (*before_)(int);
};

struct Rendezvous {
  HostPort where;
  std::optional<SocketAddress> found{};  // if it had to be looked up
};

// Rendezvous address: the requested one; else this host's name if there are remote ranks; else loopback.
Rendezvous rendezvous(const LaunchOptions& options) {
  bool remote = false;
  for (const RankSlot& slot : options.slots) remote |= slot.remote;
  if (!options.address.empty()) {
    HostPort where{options.address, 0};
    if (auto whole = parse_host_port(options.address)) where = std::move(*whole);
    check(where.host.find(':') == std::string::npos || where.host != options.address,
          "[launch] expected an address host or host:port, got '{}'", options.address);
    check(where.host != "0.0.0.0" && where.host != "::",
          "[launch] expected an address that ranks can be told, got {}, which stands for any", where.host);
    return {.where = where};
  }
  if (!remote) return {.where = {"127.0.0.1", 0}};
  HostPort own{host_name(), 0};
  const auto found = resolve(own);
  check(found.ok() && !found->front().loopback(),
        "[launch] expected an address at which other hosts can reach this one (--address), got none: {}",
        found.ok() ? fmt::format("the name {} stands for {} here", own.host, found->front().host()) : found.error());
  return {.where = own, .found = found->front()};
}

constexpr std::chrono::milliseconds kBeforeFailure{500};        // for the ranks' lines to come out before the error
constexpr std::chrono::milliseconds kStuckAfterFailure{1'000};  // then a reader that takes nothing is left behind

LaunchOptions::Stop asked(const LaunchOptions& options) {
  return options.stop ? options.stop() : LaunchOptions::Stop{};
}

void let_out(Console& console) {
  const auto end = std::chrono::steady_clock::now() + kBeforeFailure;
  console.flush(kBeforeFailure, [&] { return std::chrono::steady_clock::now() >= end; });
}

// Waits for the readers of our output: of a good run as long as they take, like any program; a further stop ends that.
void flush(Console& output, Console& error, const LaunchOptions& options, int code) {
  const int stops = asked(options).times;
  const auto stopped = [&] { return asked(options).times > stops; };
  const std::chrono::milliseconds stuck = code == 0 ? std::chrono::hours(24 * 365) : kStuckAfterFailure;
  error.flush(stuck, stopped);
  output.flush(stuck, stopped);
}

void tell_failure(Console& error, const RankEnd& failed, std::size_t ranks) {
  std::string others;
  if (ranks == 2) others = "; the other rank was ended";
  if (ranks > 2) others = fmt::format("; the other {} ranks were ended", ranks - 1);
  error.line(fmt::format("starling: {}{}", failed.text(), others));
  if (failed.last_lines.empty()) error.line("starling: it had written nothing to stderr");
  if (failed.spoke_last) return;  // the final message of the rank stands right above
  for (const auto& line : failed.last_lines) error.line(fmt::format("[{}] {}", failed.slot.rank, line));
}

}  // namespace

std::string name_of(const RankSlot& slot, pid_t pid) {
  const std::string who =
      slot.role.empty() ? fmt::format("rank {}", slot.rank) : fmt::format("{}, rank {}", slot.role, slot.rank);
  if (slot.remote) return fmt::format("{} (on {})", who, slot.host);
  return fmt::format("{} (pid {} on {})", who, pid, slot.host.empty() ? host_name() : slot.host);
}

std::string RankEnd::text() const {
  if (!finding.empty()) return finding;
  const char* words = step_is_last ? " after step" : ", last reported step";  // the rank may have gone further since
  const std::string when = step ? fmt::format("{} {}", words, *step) : "";
  const bool cut = slot.remote && exit.code == kNoConnection;
  return fmt::format("{} {}{}", name_of(slot, pid), cut ? "lost its connection" : describe(exit), when);
}

LaunchEnd launch(const LaunchOptions& options) {
  check(!options.slots.empty() && !options.argv.empty(), "[launch] expected a program and at least one rank, got none");
  const IgnoringPipeSignals ignoring;
  Console output(options.output), error(options.error);
  const auto [where, found] = rendezvous(options);
  const std::string secret = options.secret.empty() ? make_secret() : options.secret;
  const std::string name = make_secret().substr(0, 16);
  LaunchEnd end;
  for (int start = 0;; ++start) {
    const StoreServer server({.host = where.host,
                              .found = found,
                              .port = where.port,
                              .secret = secret,
                              .world = static_cast<int>(options.slots.size()),
                              .epoch = static_cast<std::uint64_t>(start)});
    {
      RankWatch watch(options, output, error);
      watch.start(server, {.secret = secret, .launch = name, .epoch = start});
      end = watch.run();
    }
    end.restarts = start;
    let_out(output);
    if (end.failed) tell_failure(error, *end.failed, options.slots.size());
    if (end.code != 1 || start >= options.max_restarts || asked(options).times > 0) break;
    error.line(fmt::format("starling: all ranks start again (restart {} of {})", start + 1, options.max_restarts));
  }
  flush(output, error, options, end.code);
  return end;
}

}  // namespace starling::dist
