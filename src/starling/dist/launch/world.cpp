#include "starling/dist/launch/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstring>

#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/connect.h"
#include "starling/dist/launch/final_message.h"
#include "starling/dist/launch/heartbeats/exit_watch.h"
#include "starling/dist/launch/heartbeats/heartbeat_sender.h"
#include "starling/dist/launch/hosts.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/secret.h"
#include "starling/dist/launch/store/store_server.h"
#include "starling/dist/launch/store/tcp_store.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFailureHeard{1'000};  // limit for a launcher that does not answer
constexpr milliseconds kStepsEvery{20};       // minimum interval between step reports

std::uint64_t read_epoch(const dist::Variables& variables) {
  const std::string text = variables("STARLING_EPOCH").value_or("0");
  std::uint64_t epoch = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), epoch);
  check(error == std::errc{} && end == text.data() + text.size(),
        "[world] expected a whole number in STARLING_EPOCH, got '{}'", text);
  return epoch;
}

// Backend whose own program started this process; null: none did.
const dist::CommBackend* started_over(const dist::RankInfo& info, const dist::Variables& variables) {
  for (const auto& backend : dist::comm_backends().in_order()) {
    if (backend.started != nullptr && backend.started(info, variables)) return &backend;
  }
  return nullptr;
}

}  // namespace

struct World::Ties {
  bool launched = false;                        // started by `starling launch`, which reads the notes
  std::unique_ptr<dist::StoreServer> server{};  // on rank 0, if no launcher runs one
  std::shared_ptr<dist::TcpStore> store{};
  std::atomic<std::int64_t> step{-1};
  std::atomic<CommClock::rep> told{0};  // time of the last report; 0: never

  void tell(int rank) { store->note(fmt::format("step/{}", rank), std::to_string(step.load())); }
};

namespace {

struct Joining {
  World world{};
  const WorldOptions& options;
  const dist::Variables variables = dist::process_environment();
  const bool launched = variables("STARLING_LAUNCHED").has_value();
  dist::ConnectOptions connect{};

  explicit Joining(const WorldOptions& given);
  void meet_at(const std::string& address, const std::string& secret, bool serve);
  void beat(const dist::CommBackend* starter);
  const dist::CommBackend* starter() const;
  dist::MetRanks meet_over(const dist::CommBackend& backend);
};

// Not inline: GCC 12 would warn of uninitialised members.
[[gnu::noinline]] Joining::Joining(const WorldOptions& given) : options(given) {}

void Joining::meet_at(const std::string& address, const std::string& secret, bool serve) {
  const dist::RankInfo& info = world.info;
  world.ties = std::make_shared<World::Ties>();
  world.ties->launched = launched;
  if (!launched) dist::prepare_final_message(info.rank, world.host);
  if (serve) {
    const dist::HostPort where = dist::parse_host_port(address).value();
    world.ties->server = std::make_unique<dist::StoreServer>(dist::StoreServerOptions{
        .host = where.host, .port = where.port, .secret = secret, .world = info.world, .epoch = world.epoch});
  }
  world.ties->store =
      std::make_shared<dist::TcpStore>(dist::TcpStoreOptions{.address = serve ? world.ties->server->address() : address,
                                                             .secret = secret,
                                                             .rank = info.rank,
                                                             .world = info.world,
                                                             .epoch = world.epoch,
                                                             .join_deadline = options.join_deadline,
                                                             .stop = options.stop});
  world.store = world.ties->store;
  connect.listen = world.ties->store->local_host();
}

// Backend over which the ranks find each other, since it brings them; null: they need a rendezvous.
const dist::CommBackend* Joining::starter() const {
  if (connect.backend != nullptr) return connect.backend->brings_ranks() ? connect.backend : nullptr;
  return launched ? nullptr : started_over(world.info, variables);
}

// Joins over a backend that brings its ranks and announces rank 0's rendezvous, with a secret for this run alone.
dist::MetRanks Joining::meet_over(const dist::CommBackend& backend) {
  const dist::RankInfo& info = world.info;
  auto comm = backend.make(nullptr, {.rank = info.rank,
                                     .world = info.world,
                                     .epoch = world.epoch,
                                     .join_deadline = options.join_deadline,
                                     .call_deadline = connect.call_deadline,
                                     .rank_progress = connect.rank_progress,
                                     .stop = options.stop,
                                     .all_reduce = options.all_reduce});
  check(comm->rank() == info.rank && comm->size() == info.world,
        "[world] expected rank {} of {}, as {} told, got rank {} of {} from {}: is this build's {} the one that "
        "started it?",
        info.rank, info.world, info.starter, comm->rank(), comm->size(), backend.title, backend.title);
  constexpr std::size_t kWidth = 512;
  std::string own = dist::host_identity(variables).substr(0, kWidth),
              all(kWidth * static_cast<std::size_t>(info.world), '\0');
  own.resize(kWidth, '\0');
  comm->all_gather(own.data(), all.data(), static_cast<std::int64_t>(kWidth), DType::u8, {.name = "hosts"}).wait();
  bool one_host = true;
  for (std::size_t i = 0; i < all.size(); i += kWidth) one_host &= all.compare(i, kWidth, own) == 0;

  std::string said(kWidth, '\0');
  if (info.rank == 0) {
    const std::string secret = dist::make_secret();
    const std::string bind = !info.address.empty() ? info.address
                             : one_host            ? "127.0.0.1:0"
                                                   : dist::HostPort{dist::host_name(), 0}.text();
    meet_at(bind, secret, true);
    said = fmt::format("{} {}", secret, world.ties->server->address());
    said.resize(kWidth, '\0');
  }
  comm->broadcast(said.data(), static_cast<std::int64_t>(kWidth), DType::u8, 0, {.name = "rendezvous"}).wait();
  said.resize(std::strlen(said.c_str()));
  if (info.rank != 0) meet_at(said.substr(said.find(' ') + 1), said.substr(0, said.find(' ')), false);
  return {&backend, std::move(comm)};
}

// Begins the heartbeats of a connected rank. What they find breaks the communicator, and all groups split from it. They
// go on beyond the world where a rendezvous does, too: the launcher's, or the one that ranks of `starter` made for this
// run.
void Joining::beat(const dist::CommBackend* starter) {
  if (connect.rank_progress == nullptr) return;
  const auto found = [comm = std::weak_ptr<Comm>(world.comm)](const std::string& finding) {
    if (const auto there = comm.lock()) there->abort(finding);
  };
  world.heartbeats = std::make_shared<dist::HeartbeatSender>(
      world.ties->store->line(),
      dist::HeartbeatOptions{.rank = world.info.rank,
                             .every = options.heartbeat,
                             .deadline = options.deadline,
                             .place = fmt::format("pid {} on {}", ::getpid(), world.host),
                             .served_by_rank0 = !launched},
      connect.rank_progress, found, [store = world.ties->store] { return store->line_at_once(); });
  if (launched || starter != nullptr)
    world.heartbeats = dist::watch_until_exit(std::move(world.heartbeats), world.ties);
  if (starter != nullptr && starter->when_waiting_at_exit != nullptr) {
    starter->when_waiting_at_exit(dist::wait_under_watch);
  }
}

milliseconds call_deadline(const WorldOptions& options) {
  return options.call_deadline.count() > 0 ? options.call_deadline : kNoDeadline;
}

}  // namespace

void World::report_progress() const {
  if (comm && comm->rank_progress() != nullptr) comm->rank_progress()->progress();
}

std::shared_ptr<Comm> World::part(const dist::RankInfo& part_info, const std::string& name,
                                  const WorldOptions& options) const {
  dist::ConnectOptions how;
  how.epoch = epoch;
  how.join_deadline = options.join_deadline;
  how.call_deadline = options.deadline.count() > 0 ? options.deadline : kNoDeadline;
  how.checking = options.checking;
  how.stop = options.stop;
  how.listen = ties->store->local_host();
  return dist::connect_world(part_info, with_prefix(store, name), how).comm;
}

void World::report_step(std::int64_t step) const {
  if (ties == nullptr) return;
  if (comm->rank_progress() != nullptr) comm->rank_progress()->set_step(step);
  report_progress();
  if (!ties->launched) return dist::note_last_step(step);
  ties->step.store(step, std::memory_order_relaxed);
  const auto now = CommClock::now().time_since_epoch().count();
  const auto told = ties->told.load(std::memory_order_relaxed);
  if (told != 0 && CommClock::duration(now - told) < kStepsEvery) return;
  ties->told.store(now, std::memory_order_relaxed);
  ties->tell(info.rank);
}

void World::report_failure(std::string_view why) const {
  if (ties == nullptr) return;
  if (!ties->launched) return dist::write_failure();
  if (ties->step.load() >= 0) ties->tell(info.rank);
  ties->store->note_now(fmt::format("failed/{}", info.rank), why.substr(0, 4096), kFailureHeard);
}

World join_world(const dist::ProcessFlags& flags, const WorldOptions& options) {
  Joining joining(options);
  World& world = joining.world;
  world.info = find_rank_info(flags, joining.variables).value();
  world.epoch = read_epoch(joining.variables);
  world.host = dist::host_name();
  const std::string backend =
      options.backend.empty() ? joining.variables("STARLING_BACKEND").value_or("") : options.backend;
  joining.connect = {.backend = dist::find_backend(backend),
                     .epoch = world.epoch,
                     .join_deadline = options.join_deadline,
                     .call_deadline = call_deadline(options),
                     .checking = options.checking,
                     .stop = options.stop};
  if (options.heartbeat.count() > 0) joining.connect.rank_progress = std::make_shared<dist::RankProgress>();
  joining.connect.all_reduce = options.all_reduce;
  if (world.alone()) {
    world.backend = "threads";
    world.store = make_memory_store();
    world.comm = std::move(make_thread_comms(1, {.epoch = world.epoch, .deadline = call_deadline(options)}).front());
    return std::move(world);
  }
  set_thread_rank(world.info.rank);
  const dist::CommBackend* starter = joining.starter();
  dist::MetRanks met;
  if (starter != nullptr) {
    met = joining.meet_over(*starter);
  } else {
    check(!world.info.address.empty(),
          "[world] expected STARLING_ADDRESS, host:port where rank 0 listens, since {} brings no rendezvous of its own "
          "to this build, got none",
          world.info.starter);
    joining.meet_at(world.info.address, dist::read_secret(options.secret_file, joining.variables),
                    world.leads() && !joining.launched);
  }
  auto connected = connect_world(world.info, with_prefix(world.store, "connect"), joining.connect, std::move(met));
  world.backend = std::move(connected.backend);
  world.info.local_rank = connected.hosts.local_rank();
  world.info.local_world = connected.hosts.local_world();
  world.comm = std::move(connected.comm);
  joining.beat(starter);
  return std::move(world);
}

}  // namespace starling
