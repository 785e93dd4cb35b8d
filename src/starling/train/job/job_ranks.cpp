#include "starling/train/job/job_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "starling/base/config/config.h"
#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/base/parallel.h"
#include "starling/base/thread/as_rank.h"
#include "starling/base/thread/make_thread.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/comm/transport/memory/memory_transport.h"
#include "starling/dist/comm/transport/transport_comm.h"
#include "starling/dist/health/flight_recorder.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/dist/strategy/grouped.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/device_memory.h"
#include "starling/train/job/job_device.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_servers.h"
#include "starling/train/ranks/thread_watch.h"

namespace starling::train {
namespace {

int threads_of_each(const DistributeJob& job, int ranks_here) {
  const int all = job.threads > 0 ? static_cast<int>(job.threads) : num_threads();
  return std::max(1, all / ranks_here);
}

bool is_plain(const DistributeJob& job) {
  const nlohmann::json options = job.strategy.json();
  return job.workers == 1 && job.strategy.name == "allreduce" && !options.value("deterministic", false) &&
         options.value("codec", nlohmann::json("none")) == "none";
}

// Without heartbeats nobody is watched, threads neither: a debugger may hold one anywhere.
bool supervised(const DistributeJob& job) { return job.heartbeat > 0; }

// Value of a setting as written in the job.
std::string chosen(const DistributeJob& job, const char* key) {
  return settings_json(DistributeJob::settings(), &job).at(key);
}

// Communicators of ranks in threads: shared memory, or messages through memory if the job names an all-reduce
// algorithm.
class ThreadComms {
 public:
  ThreadComms(const DistributeJob& job, const ThreadWatch& watch)
      : all_reduce_(chosen(job, "all_reduce")), progress_by_rank_(watch.progress_by_rank()) {
    const auto workers = static_cast<int>(job.workers);
    if (all_reduce_ == "auto") {
      ThreadWorldOptions how{.deadline = kNoDeadline, .progress_by_rank = progress_by_rank_};
      if (!supervised(job)) how.visit_patience = {};
      comms_ = make_thread_comms(workers, how);
    } else {
      network_ = dist::make_memory_network(workers);
    }
  }
  // Communicator of a rank; call once per rank; collective.
  std::unique_ptr<Comm> of(int rank, int workers) {
    if (!network_) return std::move(comms_[static_cast<std::size_t>(rank)]);
    CommGroup group{.rank = rank, .size = workers, .deadline = kNoDeadline};
    if (!progress_by_rank_.empty()) group.rank_progress = progress_by_rank_[static_cast<std::size_t>(rank)];
    return make_transport_comm(network_->endpoint(rank), group, dist::reducing_by(all_reduce_));
  }

 private:
  std::string all_reduce_;
  std::vector<std::shared_ptr<dist::RankProgress>> progress_by_rank_;
  std::vector<std::unique_ptr<Comm>> comms_;
  std::shared_ptr<dist::MemoryNetwork> network_;
};

// With groups, workers of a group all-reduce, and the job's strategy runs between groups.
std::shared_ptr<dist::RankStrategy> make_strategy(const DistributeJob& job, const std::shared_ptr<Comm>& comm) {
  const dist::StrategyMaker maker = job.strategy.make();
  if (!job.topology || job.topology->worker_groups == 1) return maker(comm);
  return std::make_shared<dist::Grouped>(comm, *job.topology, AllReduceOptions{.codec = job.topology->codec}, maker);
}

// The communicator of ranks that train on GPUs, and the note of it; on CPUs the given one.
std::shared_ptr<Comm> on_gpus(const Job& job, const std::shared_ptr<Comm>& comm, int ranks_here, RankSetup& setup) {
  if (comm->size() == 1 || !trains_on_gpus(job)) return comm;
  const dist::DeviceComms devices = connect_gpus(job, comm, setup.local_rank);
  setup.device_note = device_note(job, devices, ranks_here, cuda_device_count());
  return devices.comm;
}

// First of several failures: each rank reports its own before the others can fail because of it.
class FirstFailure {
 public:
  explicit FirstFailure(int workers)
      : errors_(static_cast<std::size_t>(workers)) {}  // NOLINT(bugprone-throw-keyword-missing): a list of them

  void report(int rank) {
    int nobody = -1;
    first_.compare_exchange_strong(nobody, rank);
  }
  void keep(int rank, std::exception_ptr error) { errors_[static_cast<std::size_t>(rank)] = std::move(error); }
  // After all ranks have ended.
  void rethrow() const {
    if (first_ >= 0 && errors_[static_cast<std::size_t>(first_)])
      std::rethrow_exception(errors_[static_cast<std::size_t>(first_)]);
    for (const auto& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  std::atomic<int> first_{-1};
  std::vector<std::exception_ptr> errors_;  // by rank
};

// Runs a rank; on failure, aborts the other ranks and writes this rank's flight record. A job that is refused has no
// flight to record, and leaves no folder behind.
TrainResult watched(const Job& job, const std::shared_ptr<Comm>& comm, const std::function<TrainResult()>& body,
                    const std::function<void(std::string_view why)>& failed = {}) {
  const auto is_refusal = [](const std::exception& error) {
    return dynamic_cast<const Refusal*>(&error) != nullptr || dynamic_cast<const ConfigError*>(&error) != nullptr;
  };
  try {
    return body();
  } catch (const std::exception& error) {
    if (comm->size() > 1 && !is_refusal(error))
      static_cast<void>(dist::write_flight_record(*comm, job.train.folder, error.what()));
    if (failed) failed(error.what());
    comm->abort(error.what());
    throw;
  }
}

// A network and callbacks of the program are there once: ranks that are threads cannot have one each, unless the
// program says how networks are made.
bool shared_by_threads(const Job& job, const TrainOptions& options) {
  return job.distribute.workers > 1 && (options.net || !options.callbacks.empty());
}

// Refuses settings that one trainer whose steps run on several threads does not honour as ranks of their own would.
void expect_threads_can(const Job& job) {
  const auto refuse = [&](const char* key, const std::string& given) {
    refuse_job(job, key,
               fmt::format("[train] expected distribute.strategy: allreduce without codec, zero, mesh, layout, groups "
                           "and servers for {} workers that share a network or callbacks of the program's own, got {} "
                           "(give a function that makes a network for each of them, or leave distribute.workers out, "
                           "and start processes with one worker each: starling launch or mpirun)",
                           job.distribute.workers, given));
  };
  if (job.distribute.server_count() > 0) refuse("distribute.servers", "servers");
  if (job.distribute.strategy.name != "allreduce") refuse("distribute.strategy", job.distribute.strategy.name);
  if (job.distribute.topology && job.distribute.topology->worker_groups > 1) refuse("distribute.workers", "groups");
  const nlohmann::json given = job.distribute.strategy.json();
  const nlohmann::json usual = dist::strategy_kinds().by_name("allreduce").json();
  for (const char* option : {"codec", "zero", "mesh", "layout", "shard_order"}) {
    if (given.value(option, nlohmann::json()) != usual.value(option, nlohmann::json()))
      refuse("distribute.strategy", option);
  }
}

// Runs a job with one trainer whose steps run on a thread for each worker.
TrainResult train_shared(const Job& job, const TrainOptions& options) {
  expect_threads_can(job);
  const nlohmann::json given = job.distribute.strategy.json();
  const auto workers = static_cast<int>(job.distribute.workers);
  DataParallelOptions how{.workers = workers,
                          .threads_per_worker = threads_of_each(job.distribute, workers),
                          .deterministic = given.value("deterministic", false),
                          .checked = job.distribute.check};
  how.shards = given.value("shards", how.shards);
  return train_rank(job, load_job_data(job), options, {.step = data_parallel(how)});
}

// Runs ranks as threads; rank 0 is the calling thread. They share the data and nothing else.
TrainResult train_threads(const Job& job, const TrainOptions& options) {
  const auto workers = static_cast<int>(job.distribute.workers);
  const int threads = threads_of_each(job.distribute, workers);
  const JobData data = load_job_data(job);
  ThreadWatch watch(workers, supervised(job.distribute) && workers > 1 ? job.distribute.deadline : 0, options.hung);
  ThreadComms comms(job.distribute, watch);
  FirstFailure failure(workers);
  TrainResult result;
  const auto run = [&](int rank) {
    const AsRank as_rank(workers > 1 ? rank : thread_rank());
    const ThreadScope scope(threads);
    const auto failed = [&](std::string_view) { failure.report(rank); };
    try {
      std::unique_ptr<Comm> made = comms.of(rank, workers);
      if (job.distribute.check && workers > 1) made = dist::make_checking(std::move(made));
      const std::shared_ptr<Comm> comm = std::move(made);
      watch.join(rank, comm);
      TrainOptions of_rank = options;
      if (rank != 0) of_rank.stop = nullptr;  // rank 0 polls for all
      const auto body = [&] {
        RankSetup setup{.threads = threads, .failed = failed, .local_rank = rank};
        setup.strategy = make_strategy(job.distribute, on_gpus(job, comm, workers, setup));
        return train_rank(job, data, of_rank, setup);
      };
      TrainResult ended = watched(job, comm, body, failed);
      if (rank == 0) result = std::move(ended);
    } catch (...) {
      failed("");
      failure.keep(rank, std::current_exception());
    }
    watch.leave(rank);
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < workers; ++rank) others.push_back(make_thread({.rank = rank}, [&run, rank] { run(rank); }));
  run(0);
  for (auto& other : others) other.join();
  failure.rethrow();
  return result;
}

// A problem of the job is the same on all ranks, unless they see other files: then each tells its own.
TrainResult telling_once(const Processes& others, const std::function<TrainResult()>& body) {
  const auto tell = [&](const Error& error) {
    const std::string problem = without_rank(error.what());
    if (others.told_by_first(problem)) throw ToldByFirstRank(problem);
  };
  try {
    return body();
  } catch (const JobError& error) {
    tell(error);
    throw;
  } catch (const ConfigError& error) {
    tell(error);
    throw;
  }
}

// Runs this process as one of several ranks.
TrainResult train_process(Job job, const TrainOptions& options) {
  const Processes others = join_processes(options.processes, {.backend = job.distribute.backend.between_processes(),
                                                              .check = job.distribute.check,
                                                              .all_reduce = chosen(job.distribute, "all_reduce"),
                                                              .heartbeat = job.distribute.heartbeat,
                                                              .deadline = job.distribute.deadline,
                                                              .stop = options.stop});
  if (job.distribute.server_count() > 0)
    return telling_once(others, [&] { return train_with_servers(job, options, others); });
  job.distribute.workers = others.comm->size();
  const int threads = threads_of_each(job.distribute, others.here);
  const ThreadScope scope(threads);
  const auto load = [&] {
    const dist::RankProgress::Uncounted reading(others.comm->rank_progress());
    return load_job_data(job);
  };
  const auto body = [&] {
    const JobData data = load();
    RankSetup setup{
        .threads = threads, .stepped = others.stepped, .failed = others.failed, .local_rank = others.local_rank};
    setup.strategy = make_strategy(job.distribute, on_gpus(job, others.comm, others.here, setup));
    return train_rank(job, data, options, setup);
  };
  return watched(
      job, others.comm, [&] { return telling_once(others, body); }, others.failed);
}

// Keeps the tensors of this process within the job's memory during its lifetime.
class MemoryLimit {
 public:
  explicit MemoryLimit(const Job& job) : limits_(job.train.memory_mb > 0) {
    if (limits_) allocator(kCpu).set_cap(job.train.memory_mb << 20);
  }
  ~MemoryLimit() {
    if (limits_) allocator(kCpu).set_cap(0);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  bool limits_;
};

}  // namespace

TrainResult run_job(const Job& job, const TrainOptions& options) {
  const MemoryLimit limit(job);
  if (among_processes(options.processes)) return train_process(job, options);
  if (const auto beyond = trained_beyond(job)) return *beyond;
  if (shared_by_threads(job, options)) return train_shared(job, options);
  if (job.distribute.server_count() > 0) return train_with_servers(job, options);
  if (is_plain(job.distribute))
    return train_rank(job, load_job_data(job), options, {.threads = static_cast<int>(job.distribute.threads)});
  return train_threads(job, options);
}

}  // namespace starling::train
