#pragma once

#include <mpi.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "starling/dist/comm/call.h"

namespace starling::dist::mpi {

// MPI library of this process, from its first use to the process's end. All MPI calls are made under its lock.
class Session {
 public:
  // Initialises MPI if needed, which waits for all processes; throws Error if they have not come by then, once stop(),
  // polled meanwhile, is true (null: never), or if MPI cannot be used from several threads.
  static Session& get(CommTime until, const std::function<bool()>& stop = {});

  std::mutex& mutex() { return mutex_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int largest_tag() const { return largest_tag_; }

  // New communicator of all processes, used by the caller alone, which returns errors instead of aborting. Collective;
  // throws Error if not all have joined by then, or once stop(), polled meanwhile, is true; null: never. Kept until the
  // process ends: MPI might deliver messages of a freed communicator to a new one that reuses its id.
  MPI_Comm new_world(CommTime until, const std::function<bool()>& stop = {});

  // Registers a function to call, without the lock, before finish() waits for the others.
  void before_waiting(std::function<void()> called);

  // Marks MPI as unusable: a group broke while MPI may still write into buffers already returned to callers.
  void tear(const std::string& why) { torn_ = why; }

 private:
  Session(CommTime until, const std::function<bool()>& stop);
  static void finish(int status, void* session);

  std::mutex mutex_;
  int rank_ = 0, size_ = 1, largest_tag_ = 32767;
  bool ours_ = false;
  std::string torn_;
  std::function<void()> before_waiting_;
};

// Throws "[mpi] <what>: <MPI's message>" unless code is MPI_SUCCESS.
void check_mpi(int code, const char* what);
std::string words_of(int code);

}  // namespace starling::dist::mpi
