#pragma once

#include <memory>
#include <vector>

#include "starling/dist/ps/client.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling::train {

// Table of the weights for servers, with the options of their parameter groups: the same on leader, workers and servers
// of a job. Tensors of many rows are cut between rows, so that rows of them can be pushed alone. `whole`: no tensor is
// cut. `lines`: tensors of few rows are cut between rows, too, for a codec whose form is one of lines.
std::vector<dist::ps::ServedTensor> served_tensors(const dist::TrainedState& state, int servers, bool whole,
                                                   bool lines = false);

// Model on the servers of a run, as its leader sees it. One thread.
class ServedModel {
 public:
  explicit ServedModel(std::unique_ptr<dist::ps::Client> client) : client_(std::move(client)) {}

  void put(const dist::TrainedState& state);    // weights and optimizer state: the run begins with them
  void fetch(const dist::TrainedState& state);  // copies them into the tensors of these names
  void retire(int worker) { client_->retire(worker); }
  dist::ps::Counters counters() { return client_->server_counters(); }
  dist::ps::Client& client() const { return *client_; }
  void stop() { client_->stop_servers(); }

 private:
  std::unique_ptr<dist::ps::Client> client_;
};

}  // namespace starling::train
