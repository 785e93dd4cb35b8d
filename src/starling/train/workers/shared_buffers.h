#pragma once

#include <mutex>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::train {

// Running statistics of the first worker that is left, which are those of the model: it shows them after every portion,
// and the leader reads them. Worker 0 is in the leader's process; others send them. Thread-safe.
class SharedBuffers {
 public:
  void show(const std::vector<Tensor>& buffers) { copy(buffers, shown_); }
  // For their types: the values change while others read.
  std::vector<Tensor> shown() const {
    const std::scoped_lock lock(mutex_);
    return shown_;
  }
  bool any() const { return !shown().empty(); }
  void read(const std::vector<Tensor>& into) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < into.size() && i < shown_.size(); ++i) copy_into(into[i], shown_[i]);
  }

 private:
  void copy(const std::vector<Tensor>& from, std::vector<Tensor>& to) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = to.size(); i < from.size(); ++i) to.push_back(empty(from[i].shape(), from[i].dtype()));
    for (std::size_t i = 0; i < from.size(); ++i) copy_into(to[i], from[i]);
  }

  mutable std::mutex mutex_;
  std::vector<Tensor> shown_;
};

}  // namespace starling::train
