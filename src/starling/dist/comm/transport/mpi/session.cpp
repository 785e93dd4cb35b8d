#include "starling/dist/comm/transport/mpi/session.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "starling/base/error.h"

namespace starling::dist::mpi {
namespace {

using std::chrono::milliseconds;

int number_of(int attribute, int otherwise) {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, attribute, static_cast<void*>(&value), &found);
  return found != 0 ? *static_cast<int*>(value) : otherwise;
}

// Throws Error once it is too late, or if this rank is asked to stop.
void expect_more_time(CommTime until, const std::function<bool()>& stop) {
  check(!(stop && stop()), "[mpi] expected all ranks to join, got a request to stop before");
  check(CommClock::now() < until, "[mpi] expected all ranks to join in time, got some that did not come");
}

// MPI_Init_thread returns when all processes have called it, and cannot be interrupted: it is called on a thread of its
// own, which is given up if the others do not come. The process must then end, as there is no second try.
int initialise(int& threads, CommTime until, const std::function<bool()>& stop) {
  struct Outcome {
    std::atomic<bool> known{false};
    int code = MPI_SUCCESS, threads = MPI_THREAD_SINGLE;
  };
  static std::atomic<bool> tried{false};
  check(!tried.exchange(true), "[mpi] expected a process that has not given MPI up, got one that has: start it anew");
  const auto outcome = std::make_shared<Outcome>();
  std::thread([outcome] {
    outcome->code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &outcome->threads);
    outcome->known = true;
  }).detach();
  while (!outcome->known) {
    expect_more_time(until, stop);
    std::this_thread::sleep_for(milliseconds(1));
  }
  threads = outcome->threads;
  return outcome->code;
}

}  // namespace

std::string words_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return {text, static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) fail("[mpi] {}: {}", what, words_of(code));
}

Session& Session::get(CommTime until, const std::function<bool()>& stop) {
  static Session& session = *new Session(until, stop);  // leaked: needed at process exit
  check(session.torn_.empty(), "[mpi] expected a process whose MPI is whole, got one where {}: start it anew",
        session.torn_);
  return session;
}

Session::Session(CommTime until, const std::function<bool()>& stop) {
  int there = 0, threads = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&there), "is it initialised");
  if (there == 0) {
    // Prevents Open MPI from yielding the core at every unsuccessful poll, which loses it on a busy machine;
    // MpiTransport::wait naps instead. A value set by the user wins.
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
    check_mpi(initialise(threads, until, stop), "initialise");
    ours_ = true;
    ::on_exit(finish, this);
  } else {
    check_mpi(MPI_Query_thread(&threads), "which threads may call it");
  }
  check(threads >= MPI_THREAD_SERIALIZED, "[mpi] expected an MPI that several threads may call in turn, got level {}",
        threads);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "have errors returned");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "size");
  largest_tag_ = number_of(MPI_TAG_UB, largest_tag_);
}

MPI_Comm Session::new_world(CommTime until, const std::function<bool()>& stop) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  {
    std::scoped_lock lock(mutex_);
    check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &made, &request), "copy the world");
  }
  for (int done = 0; done == 0;) {
    {
      std::scoped_lock lock(mutex_);
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "copy the world");
    }
    if (done == 0) {
      try {
        expect_more_time(until, stop);
      } catch (...) {
        std::scoped_lock lock(mutex_);
        tear("not all ranks came to join a group");
        throw;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  std::scoped_lock lock(mutex_);
  check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "have errors returned");
  return made;
}

void Session::before_waiting(std::function<void()> called) {
  std::scoped_lock lock(mutex_);
  before_waiting_ = std::move(called);
}

// Exit handler. A failed process exits at once, and its starter ends the others; a successful one waits for the others,
// as MPI_Finalize requires: asleep, and without a deadline, since one may work alone as long as it likes. The starter
// ends it when another rank dies, and before_waiting_ sees to ranks that are stopped, until the process is gone:
// MPI_Finalize waits as well. before_waiting_ is called without the lock: it waits for the thread of the heartbeats,
// which may be about to abort a group, under this lock.
void Session::finish(int status, void* session) {
  auto& self = *static_cast<Session*>(session);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || status != 0 || !self.torn_.empty()) return;
  std::function<void()> before_waiting;
  {
    std::scoped_lock lock(self.mutex_);
    before_waiting = self.before_waiting_;
  }
  if (before_waiting) before_waiting();
  std::scoped_lock lock(self.mutex_);
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return;
  for (int done = 0; done == 0;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (done == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  MPI_Finalize();
}

}  // namespace starling::dist::mpi
