#pragma once

#include <mpi.h>

#include <chrono>
#include <mutex>
#include <string>

#include "starling/dist/comm/call.h"

namespace starling::mpi {

// The MPI of this process: one, from its first use to the process's end. All calls of MPI are made under its lock.
class Session {
 public:
  // Initialises MPI when nobody has; throws Error when it cannot be used from several threads.
  static Session& get();

  std::mutex& mutex() { return mutex_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int largest_tag() const { return largest_tag_; }

  // A communicator of all processes that nobody else uses; returns its errors. Collective; throws Error when not all
  // have come by then. Kept until the process ends: MPI may still hand messages of an old one to a new one that takes
  // its place.
  MPI_Comm new_world(CommTime until);

  // A group broke while MPI may still write into memory that belongs to callers again: MPI cannot be used any more.
  void tear(const std::string& why) { torn_ = why; }

 private:
  Session();
  static void finish(int status, void* session);

  std::mutex mutex_;
  int rank_ = 0, size_ = 1, largest_tag_ = 32767;
  bool ours_ = false;
  std::string torn_;
};

// Throws "[mpi] <what>: <MPI's words>" unless it is MPI_SUCCESS.
void check_mpi(int code, const char* what);
std::string words_of(int code);

}  // namespace starling::mpi
