#include "starling/dist/comm/threads/threads_comm.h"

#include <mutex>
#include <thread>

#include "starling/base/error.h"
#include "starling/base/thread/first_error.h"
#include "starling/base/thread/make_thread.h"
#include "starling/dist/comm/shared/shared_comm.h"

namespace starling {
namespace {

void run_rank(Comm& comm, FunctionRef<void(Comm&)> body, FirstError& failure) {
  try {
    body(comm);
  } catch (const std::exception& error) {
    failure.capture();
    comm.abort(error.what());
  } catch (...) {
    failure.capture();
    comm.abort("an exception that is no std::exception");
  }
}

}  // namespace

std::vector<std::unique_ptr<Comm>> make_thread_comms(int world, const ThreadWorldOptions& options) {
  check(world >= 1, "[comm] expected a world of at least 1 rank, got {}", world);
  return make_shared_comms(world, {.epoch = options.epoch,
                                   .label = options.label,
                                   .deadline = options.deadline,
                                   .progress_by_rank = options.progress_by_rank,
                                   .visit_patience = options.visit_patience,
                                   .spins = options.spins,
                                   .whole_process = true});
}

void run_ranks(std::span<const std::unique_ptr<Comm>> comms, FunctionRef<void(Comm&)> body) {
  FirstError failure;
  std::vector<std::jthread> threads;
  for (const auto& comm : comms) {
    const ThreadContext as_rank{.rank = comm->rank()};
    threads.push_back(make_thread<std::jthread>(as_rank, [&failure, &body, &comm] { run_rank(*comm, body, failure); }));
  }
  threads.clear();
  failure.rethrow();
}

}  // namespace starling
