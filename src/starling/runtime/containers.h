#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "starling/runtime/container.h"

namespace starling {

// Container shared by several sessions, with the initial values of its variables. Sessions hold its lock while they
// run: exclusive if they assign, shared if they only read. The functions here lock too, so they may be called from any
// thread at any time: no caller sees part of a run or of a reset.
class SharedContainer {
 public:
  explicit SharedContainer(std::string name = "main") : name_(std::move(name)) {}
  SharedContainer(const SharedContainer&) = delete;
  SharedContainer& operator=(const SharedContainer&) = delete;
  const std::string& name() const { return name_; }

  // Creates the graph's variables that are missing: from their initial values, or as the tensors that the graph was
  // built from, whose present values become the initial ones. The first caller decides; a variable of another type is
  // refused.
  void adopt(const graph::Graph& graph);

  Tensor value(const std::string& name) const;             // copy; an unknown name throws, naming the nearest
  void set(const std::string& name, const Tensor& value);  // overwrites, or adds a variable with this initial value
  std::vector<std::string> names() const;

  // Restores every variable to its initial value in place: programs see it from their next run on.
  void reset();

  // For sessions: the tensors of all variables, and the lock.
  Container bindings() const;
  std::shared_mutex& lock() const { return lock_; }

 private:
  void add(const std::string& name, Tensor tensor, graph::Graph initial);

  std::string name_;
  mutable std::shared_mutex lock_;
  Container tensors_;
  std::map<std::string, graph::Graph> initial_;  // no inputs, one output
};

// Containers by name. Thread-safe.
class Containers {
 public:
  std::shared_ptr<SharedContainer> open(const std::string& name);      // created if missing
  std::shared_ptr<SharedContainer> at(const std::string& name) const;  // throws, naming the nearest
  std::vector<std::string> names() const;

  void reset(const std::string& name) { at(name)->reset(); }
  void remove(const std::string& name);  // sessions keep using the removed one; the next open() creates a new one

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SharedContainer>> all_;
};

}  // namespace starling
