#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "starling/runtime/container.h"

namespace starling {

// A container that several sessions share, with what its variables begin with. Sessions hold its lock while they run,
// for themselves where they assign and together where they only read; the functions here do too, so they may be called
// from any thread at any time: nobody sees half of a run or of a reset.
class SharedContainer {
 public:
  explicit SharedContainer(std::string name = "main") : name_(std::move(name)) {}
  SharedContainer(const SharedContainer&) = delete;
  SharedContainer& operator=(const SharedContainer&) = delete;
  const std::string& name() const { return name_; }

  // Makes the graph's variables that are not there yet: from their first values, or as the very tensors that the graph
  // was built from, whose present values they go back to. Who comes first decides; a variable of another type is
  // refused.
  void adopt(const Graph& graph);

  Tensor value(const std::string& name) const;             // a copy; throws naming the nearest
  void set(const std::string& name, const Tensor& value);  // overwrites, or adds a variable that begins with it
  std::vector<std::string> names() const;

  // Every variable gets its first value again, in place: programs over them see it from their next run on.
  void reset();

  // For sessions: the tensors of a graph's variables, and the lock.
  Container bindings() const;
  std::shared_mutex& lock() const { return lock_; }

 private:
  void add(const std::string& name, Tensor tensor, Graph initial);

  std::string name_;
  mutable std::shared_mutex lock_;
  Container tensors_;
  std::map<std::string, Graph> initial_;  // without inputs, one output
};

// Containers by name, owned by whoever makes this. All functions may be called from several threads.
class Containers {
 public:
  std::shared_ptr<SharedContainer> open(const std::string& name);      // made if there is none
  std::shared_ptr<SharedContainer> at(const std::string& name) const;  // throws naming the nearest
  std::vector<std::string> names() const;

  void reset(const std::string& name) { at(name)->reset(); }  // this one alone
  void remove(const std::string& name);  // sessions over it keep it; the next open() makes a new one

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SharedContainer>> all_;
};

}  // namespace starling
