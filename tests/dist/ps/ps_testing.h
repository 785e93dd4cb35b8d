#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "starling/dist/ps/client.h"
#include "starling/dist/ps/server.h"
#include "starling/optim/optimizer_kinds.h"

namespace starling::dist::ps {

// Folder of a test, for sockets.
class SocketFolder {
 public:
  SocketFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-ps-XXXXXX").string();
    check(mkdtemp(pattern.data()) != nullptr, "expected a temporary folder, got none");
    path_ = pattern;
  }
  ~SocketFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::vector<ServedTensor> small_net() {
  return {{.name = "a.weight", .type = {DType::f32, {40, 30}}},
          {.name = "a.bias", .type = {DType::f32, {40}}},
          {.name = "b.weight", .type = {DType::f32, {7, 40}}}};
}

// Values that differ from element to element and from seed to seed.
inline Tensor values_like(const TensorType& type, int seed) {
  Tensor made = empty(type.shape, type.dtype);
  for (std::int64_t i = 0; i < made.numel(); ++i)
    made.data<float>()[i] = static_cast<float>((i * 7919 + seed * 104729) % 1009) / 1009.0F - 0.5F;
  return made;
}

// A gradient that depends on the weights: who reads other weights pushes something else.
inline Tensor gradient_at(const Tensor& weights, int seed) {
  const Tensor towards = values_like(weights.type(), seed);
  Tensor made = empty(weights.shape(), weights.dtype());
  for (std::int64_t i = 0; i < made.numel(); ++i)
    made.data<float>()[i] = 0.5F * (weights.data<float>()[i] - towards.data<float>()[i]);
  return made;
}

inline std::vector<Tensor> first_weights(const std::vector<ServedTensor>& net) {
  std::vector<Tensor> all;
  for (const auto& tensor : net) all.push_back(values_like(tensor.type, static_cast<int>(all.size()) + 100));
  return all;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

// Servers as threads, over one kind of address: inproc, ipc, tcp.
class ServerThreads {
 public:
  ServerThreads(const std::string& kind, const std::vector<ServedTensor>& net, int servers, ServerOptions options = {},
                const std::string& secret = "")
      : table(net, servers), wire(make_wire({.secret = secret})), secret_(secret) {
    static std::atomic<int> worlds{0};
    const std::string world = std::to_string(++worlds);
    options.secret = secret;
    std::vector<std::string> addresses;
    for (int s = 0; s < servers; ++s)
      addresses.push_back(kind == "inproc" ? "inproc://test-" + world + "-" + std::to_string(s)
                          : kind == "ipc"  ? "ipc://" + folder_.file(std::to_string(s))
                                           : "tcp://127.0.0.1:*");
    for (int s = 0; s < servers; ++s) {
      options.index = s;
      options.name = "server " + std::to_string(s);
      options.address = addresses[static_cast<std::size_t>(s)];
      running.push_back(std::make_unique<Server>(wire, table, options));
      addresses[static_cast<std::size_t>(s)] = running.back()->address();
      places.push_back({.address = running.back()->address()});
    }
    for (const auto& server : running) {
      server->meet(addresses);
      server->start();
    }
  }

  std::unique_ptr<Client> client(int worker, ClientOptions options = {}) const {
    options.worker = worker;
    options.servers = places;
    options.secret = secret_;
    return std::make_unique<Client>(wire, table, options);
  }

  KeyTable table;
  std::shared_ptr<Wire> wire;
  std::vector<std::unique_ptr<Server>> running;
  std::vector<ServerInfo> places;

 private:
  SocketFolder folder_;
  std::string secret_;
};

inline void put_all(Client& client, const std::vector<Tensor>& weights) {
  for (std::size_t t = 0; t < weights.size(); ++t) client.put(t, weights[t]);
}

inline std::vector<Tensor> pull_all(Client& client, std::int64_t clock = 0) {
  std::vector<Tensor> all;
  for (const auto& tensor : client.keys().tensors()) {
    all.push_back(empty(tensor.type.shape, tensor.type.dtype));
    client.pull(all.size() - 1, all.back(), clock);
  }
  client.wait_all();
  return all;
}

inline optim::OptimizerMaker optimizer_named(const std::string& name) {
  return optim::optimizer_kinds().by_name(name).make();
}

// The same optimizer over whole tensors, in one process.
class SerialRun {
 public:
  SerialRun(const std::vector<ServedTensor>& net, const optim::OptimizerMaker& optimizer)
      : weights_(first_weights(net)) {
    for (std::size_t t = 0; t < net.size(); ++t) weights_[t].set_name(net[t].name).set_requires_grad();
    rule_ = optimizer({{.parameters = weights_}});
  }
  const std::vector<Tensor>& weights() const { return weights_; }
  std::vector<std::pair<std::string, Tensor>> state() const { return rule_->state(); }
  void step(const std::vector<Tensor>& gradients) {
    for (std::size_t t = 0; t < weights_.size(); ++t) weights_[t].set_grad(gradients[t]);
    rule_->step();
  }
  std::vector<Tensor> gradients(int seed) const { return gradients_at(weights_, seed); }
  static std::vector<Tensor> gradients_at(const std::vector<Tensor>& weights, int seed) {
    std::vector<Tensor> all;
    for (const auto& w : weights) all.push_back(gradient_at(w, seed + 13 * static_cast<int>(all.size())));
    return all;
  }

 private:
  std::vector<Tensor> weights_;
  std::unique_ptr<optim::Optimizer> rule_;
};

inline void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t t = 0; t < a.size(); ++t) EXPECT_TRUE(same_bits(a[t], b[t])) << what << ", tensor " << t;
}
inline bool all_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool same = a.size() == b.size();
  for (std::size_t t = 0; same && t < a.size(); ++t) same = same_bits(a[t], b[t]);
  return same;
}

inline void push_all(Client& client, const std::vector<Tensor>& gradients, const PushOptions& options = {}) {
  for (std::size_t t = gradients.size(); t-- > 0;) client.push(t, gradients[t], options);  // as a backward pass does
  client.wait_all();
}

}  // namespace starling::dist::ps
