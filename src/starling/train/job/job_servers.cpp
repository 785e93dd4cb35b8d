#include "starling/train/job/job_servers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/base/thread/as_rank.h"
#include "starling/base/thread/make_thread.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/hosts.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/secret.h"
#include "starling/dist/ps/norm_rule.h"
#include "starling/dist/ps/server.h"
#include "starling/dist/strategy/servers/group_worker.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_ranks.h"
#include "starling/train/job/job_worker.h"
#include "starling/train/ranks/link.h"
#include "starling/train/workers/group_line.h"
#include "starling/train/workers/leader_watch.h"
#include "starling/train/workers/worker_pool.h"

namespace starling::train {
namespace {

namespace ps = dist::ps;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{10'000};
constexpr int kPatientBeats = 5;

milliseconds milliseconds_of(double seconds) {
  return std::chrono::ceil<milliseconds>(std::chrono::duration<double>(seconds));
}

int threads_of_each(const Job& job, int workers_here) {
  const int all = job.distribute.threads > 0 ? static_cast<int>(job.distribute.threads) : num_threads();
  return std::max(1, all / std::max(1, workers_here));
}

dist::ServerRule rule_of(const Job& job) { return *dist::server_rule(job.distribute.strategy.make()); }

int members_of(const Job& job) {
  return job.distribute.topology ? static_cast<int>(job.distribute.topology->workers_per_group) : 1;
}

int servers_of(const Job& job) { return static_cast<int>(job.distribute.server_count()); }

// Addresses, secret and counts by which leader, workers and servers of a job meet.
struct Meeting {
  std::shared_ptr<ps::Wire> wire{};
  std::string secret{};
  std::string leader{};  // address of its service
  std::vector<ps::ServerInfo> servers{};
  int workers = 1;  // of all groups
  int members = 1;  // workers of a group, which is one worker to leader and servers
  int groups() const { return workers / members; }
  std::function<bool()> stop{};  // true once the job cannot go on; null: never

  bool stopped() const { return stop && stop(); }
};

// Silence after which a peer is given up. Longer than the supervision of all ranks takes to find out who is silent,
// since a peer that is given up here need not be at fault.
milliseconds patience(const Job& job) {
  return std::max(kPatience, kPatientBeats * milliseconds_of(job.distribute.heartbeat));
}

LeaderLineOptions line_options(const Job& job, const Meeting& meeting, int worker) {
  return {.address = meeting.leader,
          .worker = worker,
          .heartbeat = milliseconds_of(job.distribute.heartbeat),
          .silence = patience(job),
          .stop = meeting.stop};
}

ps::ServerOptions server_options(const Job& job, const Meeting& meeting, int index, std::string address) {
  return {.index = index,
          .name = fmt::format("server {}", index),
          .address = std::move(address),
          .optimizer = job.optimizer.kind.make(),
          .clock = rule_of(job).clock(meeting.groups()),
          .codec = ps::PushCodec(rule_of(job).codec),
          .secret = meeting.secret};
}

std::vector<std::string> addresses_of(const Meeting& meeting) {
  std::vector<std::string> all;
  for (const ps::ServerInfo& info : meeting.servers) all.push_back(info.address);
  return all;
}

// Server that repeats what server `index` does, and takes its place when that dies.
ps::ServerOptions backup_options(const Job& job, const Meeting& meeting, int index, std::string address) {
  ps::ServerOptions how = server_options(job, meeting, index, std::move(address));
  how.name = fmt::format("backup of server {}", index);
  how.is_backup = true;
  return how;
}

// The server whose backup lies beside server `index`.
int backed_by(int index, int servers) { return (index + servers - 1) % servers; }

// Client of a worker or of a group; -1: of the leader.
std::unique_ptr<ps::Client> connect(const Job& job, const Meeting& meeting, int worker,
                                    const std::vector<ps::ServedTensor>& tensors) {
  ps::ClientOptions how{
      .worker = worker,
      .name = worker < 0 ? "leader" : fmt::format("{} {}", meeting.members > 1 ? "group" : "worker", worker),
      .servers = meeting.servers,
      .secret = meeting.secret,
      .silence = patience(job),
      .stop = meeting.stop};
  if (job.distribute.deadline > 0) how.deadline = milliseconds_of(job.distribute.deadline);
  return std::make_unique<ps::Client>(meeting.wire, ps::KeyTable(tensors, static_cast<int>(meeting.servers.size())),
                                      how);
}

std::shared_ptr<WorkerPool> make_pool(
    const Job& job, const Meeting& meeting, std::string address, std::shared_ptr<SharedBuffers> buffers,
    std::function<std::unique_ptr<ps::Client>(const dist::TrainedState&)> connect_leader) {
  WorkerPoolOptions how;
  how.strategy = job.distribute.strategy.name;
  how.rule = rule_of(job);
  how.workers = meeting.groups();
  how.members = meeting.members;
  how.wire = meeting.wire;
  how.address = std::move(address);
  how.heartbeat = milliseconds_of(job.distribute.heartbeat);
  how.deadline = milliseconds_of(job.distribute.deadline);
  how.stop = meeting.stop;
  how.buffers = std::move(buffers);
  how.connect = std::move(connect_leader);
  return std::make_shared<WorkerPool>(std::move(how));
}

// The strategy of a worker, or of member 0 of a group, on a communicator of its own; it connects with the servers once
// it knows its tensors.
std::shared_ptr<dist::ServerWorker> server_worker(const Job& job, const Meeting& meeting, int number) {
  std::shared_ptr<Comm> alone = std::move(make_thread_comms(1, {}).front());
  auto strategy = std::dynamic_pointer_cast<dist::ServerWorker>(job.distribute.strategy.make()(alone));
  strategy->connect_by([&job, &meeting, number](const dist::TrainedState& state) {
    return connect(job, meeting, number, tensors_of(job, state));
  });
  return strategy;
}

// Communicators of a group's members, for their training threads and for their loaders'.
struct GroupComms {
  std::shared_ptr<Comm> work{}, asks{};
};

// Groups of threads, by worker.
std::vector<GroupComms> group_comms(const Job& job, const Meeting& meeting) {
  std::vector<GroupComms> all(static_cast<std::size_t>(meeting.workers));
  if (meeting.members == 1) return all;
  ThreadWorldOptions how;
  if (job.distribute.deadline > 0) how.deadline = milliseconds_of(job.distribute.deadline);
  for (std::size_t first = 0; first < all.size(); first += static_cast<std::size_t>(meeting.members)) {
    auto work = make_thread_comms(meeting.members, how), asks = make_thread_comms(meeting.members, how);
    for (std::size_t m = 0; m < work.size(); ++m) all[first + m] = {std::move(work[m]), std::move(asks[m])};
  }
  return all;
}

// `meet`: the members of the worker's group. A failure of that is told to the leader, too.
WorkerSetup worker_setup(const Job& job, const Meeting& meeting, int worker, int threads,
                         const std::function<GroupComms()>& meet) {
  auto line = std::make_shared<DirectLine>(meeting.wire, line_options(job, meeting, worker));
  GroupComms comms;
  try {
    comms = meet();
  } catch (const std::exception& error) {
    line->failed(error.what());
    throw;
  }
  WorkerSetup made{.workers = meeting.workers, .threads = threads};
  if (meeting.members == 1) {
    made.strategy = server_worker(job, meeting, worker);
    made.line = std::move(line);
    return made;
  }
  const int group = worker / meeting.members;
  std::shared_ptr<Comm> alone = std::move(make_thread_comms(1, {}).front());
  made.strategy = std::make_shared<dist::GroupWorker>(
      alone, comms.work, comms.work->rank() == 0 ? server_worker(job, meeting, group) : nullptr,
      job.distribute.strategy.name, rule_of(job));
  made.line = std::make_shared<GroupLine>(
      GroupLineOptions{.group = group, .leader = std::move(line), .asks = comms.asks, .tells = comms.work});
  return made;
}

// Runs one worker, which loads its data while the leader hears that it lives; what ends it early is told to the leader,
// who decides what it means for the run.
void run_worker(const Job& job, const WorkerSetup& setup, const std::function<JobData()>& load) {
  const AsRank as_rank(setup.line->worker());
  const ThreadScope scope(setup.threads);
  try {
    train_worker(job, load(), setup);
  } catch (const std::exception& error) {
    setup.line->failed(error.what());
    throw;
  }
}

// The first worker, beside the leader, shows what workers run.
WatchWork watch_of(const TrainOptions& options) {
  if (options.explain == nullptr && options.trace.empty()) return {};
  return watch_work({.explain = options.explain, .trace = {.file = options.trace}});
}

// Servers that are threads of this process.
class EmbeddedServers {
 public:
  EmbeddedServers(const Job& job, Meeting& meeting) : job_(job), meeting_(meeting) {
    for (int index = 0; index < servers_of(job); ++index)
      meeting.servers.push_back(
          {.address = fmt::format("inproc://server-{}", index),
           .backup = job.distribute.server_backups ? fmt::format("inproc://backup-{}", index) : ""});
  }
  void start(const std::vector<ps::ServedTensor>& tensors) {
    const ps::KeyTable keys(tensors, servers_of(job_));
    for (int index = 0; index < servers_of(job_); ++index) {
      const ps::ServerInfo& info = meeting_.servers[static_cast<std::size_t>(index)];
      if (!info.backup.empty()) start(keys, backup_options(job_, meeting_, index, info.backup));
      ps::ServerOptions how = server_options(job_, meeting_, index, info.address);
      how.backup = info.backup;
      how.servers = addresses_of(meeting_);
      start(keys, how);
    }
  }

 private:
  void start(const ps::KeyTable& keys, const ps::ServerOptions& how) {
    servers_.push_back(std::make_unique<ps::Server>(meeting_.wire, keys, how));
    servers_.back()->start();
  }

  const Job& job_;
  Meeting& meeting_;
  std::vector<std::unique_ptr<ps::Server>> servers_;
};

constexpr milliseconds kLastWords{2'000};

// ZeroMQ listens at numbers and interfaces, not at names.
std::string address_for_others() {
  const auto found = dist::resolve({dist::host_name(), 0});
  check(found.ok(), "[servers] expected an address at which other hosts can reach this one, got none: {}",
        found.error());
  const std::string host = found->front().host();
  return host.find(':') == std::string::npos ? fmt::format("tcp://{}:*", host) : fmt::format("tcp://[{}]:*", host);
}

// One process of a job with servers, from the meeting of all to the end of its role.
class ServedProcess {
 public:
  ServedProcess(const Job& job, const TrainOptions& options, const Processes& others)
      : job_(job), options_(options), others_(others) {
    meeting_.workers = workers_among(job, others.comm->size());
    meeting_.members = members_of(job);
    meeting_.stop = [&others] { return !others.finding().empty(); };
    others.take_role(role_of(rank(), meeting_.workers), false);
    meeting_.secret = dist::read_secret();
    // Launchers without a secret of their own bring a network that is: rank 0 makes one for this run.
    if (meeting_.secret.empty())
      meeting_.secret = gather_texts(*others.comm, rank() == 0 ? dist::make_secret() : "")[0];
    meeting_.wire = ps::make_wire({.secret = meeting_.secret});
    const bool one_host = others.here == others.comm->size();
    own_address_ = one_host ? "tcp://127.0.0.1:*" : address_for_others();
  }

  TrainResult run() {
    if (rank() >= meeting_.workers) return serve();
    if (rank() == 0) return lead();
    meet_backups("");
    meet("");
    run_worker(job_, setup(), [this] { return load(); });
    return {.leads = false};
  }

 private:
  int rank() const { return others_.comm->rank(); }
  int threads() const {
    const int servers_here = others_.here == others_.comm->size() ? servers_of(job_) : 0;
    return threads_of_each(job_, others_.here - servers_here);
  }

  JobData load() const {
    const dist::RankProgress::Uncounted reading(others_.comm->rank_progress());
    return load_job_data(job_);
  }

  // Addresses of backups, which servers have to know before they listen themselves.
  void meet_backups(const std::string& own) {
    meeting_.servers.resize(static_cast<std::size_t>(servers_of(job_)));
    if (!job_.distribute.server_backups) return;
    const auto told = gather_texts(*others_.comm, own);
    for (int index = 0; index < servers_of(job_); ++index) {
      const auto backed = static_cast<std::size_t>(backed_by(index, servers_of(job_)));
      meeting_.servers[backed].backup =
          told[static_cast<std::size_t>(meeting_.workers) + static_cast<std::size_t>(index)];
    }
  }

  void meet(const std::string& own) {
    const auto told = gather_texts(*others_.comm, own);
    meeting_.leader = told[0];
    for (std::size_t index = 0; index < meeting_.servers.size(); ++index)
      meeting_.servers[index].address = told[static_cast<std::size_t>(meeting_.workers) + index];
    others_.take_role(role_of(rank(), meeting_.workers), is_spare(job_, rank(), meeting_.workers));
  }

  GroupComms group_comms() const {
    if (meeting_.members == 1) return {};
    const int member = rank() % meeting_.members;
    const std::string name = fmt::format("group {}", rank() / meeting_.members);
    return {others_.part(name + " work", member, meeting_.members),
            others_.part(name + " asks", member, meeting_.members)};
  }

  // Members of a group meet before they load data, which may take each of them another time.
  WorkerSetup setup(std::shared_ptr<SharedBuffers> buffers = nullptr) const {
    WorkerSetup made = worker_setup(job_, meeting_, rank(), threads(), [this] { return group_comms(); });
    made.buffers = std::move(buffers);
    made.stepped = others_.stepped;
    made.make_net = options_.make_net;
    return made;
  }

  // The first worker trains on a thread of its own, beside the leader.
  TrainResult lead() {
    const auto buffers = std::make_shared<SharedBuffers>();
    const auto pool = make_pool(job_, meeting_, own_address_, buffers, [&](const dist::TrainedState& state) {
      return connect(job_, meeting_, -1, tensors_of(job_, state));
    });
    meet_backups("");
    meet(pool->address());
    std::unique_ptr<WorkerSetup> own;
    try {
      own = std::make_unique<WorkerSetup>(setup(buffers));
      own->watch = watch_of(options_);
    } catch (const std::exception& error) {
      pool->lose(0, error.what());
    }
    const JobData data = load();
    std::thread worker = make_thread(thread_context().inherited(), [&] {
      try {
        if (const auto setup = std::move(own)) run_worker(job_, *setup, [&] { return data; });
      } catch (const std::exception& error) {
        pool->lose(0, error.what());
      }
    });
    std::exception_ptr failed;
    TrainResult result;
    try {
      const ThreadScope scope(threads());
      result = train_rank(job_, data, options_, {.threads = threads(), .pool = pool});
    } catch (...) {
      failed = std::current_exception();
    }
    pool->close();
    worker.join();
    if (failed) std::rethrow_exception(failed);
    return result;
  }

  // Ends with the leader, however that ends.
  TrainResult serve() {
    const PreparedJob prepared = prepare_job(job_, load(), own_net(job_, options_));
    const auto optimizer = make_optimizer(prepared.job, *prepared.net);
    dist::TrainedState state{.rule = optimizer.get()};
    for (auto& [name, tensor] : prepared.net->named_parameters()) state.weights.push_back({name, tensor});
    const int index = rank() - meeting_.workers;
    const ps::KeyTable keys(tensors_of(job_, state), servers_of(job_));
    std::optional<ps::Server> backup;
    if (job_.distribute.server_backups) {
      backup.emplace(meeting_.wire, keys,
                     backup_options(job_, meeting_, backed_by(index, servers_of(job_)), own_address_));
      backup->start();
    }
    meet_backups(backup ? backup->address() : "");
    ps::ServerOptions how = server_options(job_, meeting_, index, own_address_);
    how.backup = meeting_.servers[static_cast<std::size_t>(index)].backup;
    ps::Server server(meeting_.wire, keys, how);
    meet(server.address());
    server.meet(addresses_of(meeting_));
    const LeaderWatch leader(meeting_.wire, line_options(job_, meeting_, rank()));
    server.run([&] { return leader.gone() || meeting_.stopped(); });
    if (meeting_.stopped()) fail("[{}] stopped while serving", server.name());
    // A backup that serves in place of a dead server is stopped by the leader, too; one that was not needed stops
    // itself.
    const auto until = std::chrono::steady_clock::now() + kLastWords;
    while (backup && !leader.gone() && !meeting_.stopped() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(milliseconds(20));
    return {.leads = false};
  }

  const Job& job_;
  const TrainOptions& options_;
  const Processes& others_;
  Meeting meeting_;
  std::string own_address_;
};

}  // namespace

std::string role_of(int rank, int workers) {
  if (rank == 0) return "leader";
  return rank < workers ? fmt::format("worker {}", rank) : fmt::format("server {}", rank - workers);
}

bool is_spare(const Job& job, int rank, int workers) {
  if (rank >= workers) return job.distribute.server_backups;
  const bool others = members_of(job) == 1 || workers > members_of(job);  // groups
  return rank > 0 && rule_of(job).goes_on() && others;
}

std::vector<ps::ServedTensor> tensors_of(const Job& job, const dist::TrainedState& state) {
  const bool whole = job.distribute.server_backups && ps::needs_norms(job.optimizer.kind.make());
  const ps::PushCodec codec(rule_of(job).codec);
  return served_tensors(state, servers_of(job), whole, codec.by_line());
}

int workers_among(const Job& job, int ranks) {
  const auto servers = servers_of(job);
  const auto wanted = static_cast<int>(job.distribute.workers);
  if (ranks > servers && (wanted == 1 || wanted + servers == ranks)) return ranks - servers;
  refuse_job(job, "distribute",
             fmt::format("[train] expected {} processes, {} workers and {} servers, got {}", wanted + servers, wanted,
                         servers, ranks));
}

TrainResult train_with_servers(const Job& job, const TrainOptions& options) {
  Meeting meeting{.wire = ps::make_wire(),
                  .leader = "inproc://leader",
                  .workers = static_cast<int>(job.distribute.workers),
                  .members = members_of(job)};
  const JobData data = load_job_data(job);
  const int threads = threads_of_each(job, meeting.workers);
  const auto buffers = std::make_shared<SharedBuffers>();
  EmbeddedServers servers(job, meeting);
  const auto pool = make_pool(job, meeting, meeting.leader, buffers, [&](const dist::TrainedState& state) {
    const auto tensors = tensors_of(job, state);
    servers.start(tensors);
    return connect(job, meeting, -1, tensors);
  });
  std::vector<std::thread> workers;
  const std::vector<GroupComms> comms = group_comms(job, meeting);
  const auto run = [&](int worker) {
    try {
      WorkerSetup setup =
          worker_setup(job, meeting, worker, threads, [&] { return comms[static_cast<std::size_t>(worker)]; });
      if (worker == 0) setup.buffers = buffers;
      if (worker == 0) setup.watch = watch_of(options);
      setup.make_net = options.make_net;
      run_worker(job, setup, [&] { return data; });
    } catch (const std::exception& error) {
      pool->lose(worker / meeting.members, error.what());
      const auto& [work, asks] = comms[static_cast<std::size_t>(worker)];
      for (const auto& comm : {work, asks}) {
        if (comm) comm->abort(error.what());  // the others of its group may wait for it
      }
    }
  };
  for (int worker = 0; worker < meeting.workers; ++worker)
    workers.push_back(make_thread({.rank = worker}, [&run, worker] { run(worker); }));
  TrainResult result;
  std::exception_ptr failed;
  try {
    const ThreadScope scope(threads);
    result = train_rank(job, data, options, {.threads = threads, .pool = pool});
  } catch (...) {
    failed = std::current_exception();
  }
  pool->close();
  for (auto& worker : workers) worker.join();
  if (failed) std::rethrow_exception(failed);
  return result;
}

TrainResult train_with_servers(const Job& job, const TrainOptions& options, const Processes& others) {
  try {
    std::map<std::string, std::string> settings;
    for (const auto& [path, value] : job_identity(job)) settings[path] = value;
    expect_same_job(*others.comm, settings);
    return ServedProcess(job, options, others).run();
  } catch (const std::exception&) {
    if (const std::string finding = others.finding(); !finding.empty()) throw Error(finding);
    throw;
  }
}

}  // namespace starling::train
